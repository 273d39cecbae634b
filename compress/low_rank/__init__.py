"""Factors of low rank in the place of linear maps: which maps, and which ranks."""
