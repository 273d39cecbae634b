"""Narrower states: what they are like on real rows, and which directions of them are kept."""
