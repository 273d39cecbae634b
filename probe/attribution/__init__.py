"""Which words an answer rests on: integrated gradients, gradient times input, occlusion; and how far to trust them."""
