"""How vectors lie in their space: anisotropy, isotropy and intrinsic dimension."""
