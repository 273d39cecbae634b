"""Rows of text with labels: read, mapped by name, split by seed."""
