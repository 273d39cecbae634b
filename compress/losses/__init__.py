"""Losses of the training steps."""
