"""The kernel that compression, probes and reports share. It imports none of them."""
