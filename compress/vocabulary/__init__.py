"""Cutting a vocabulary: what a tokenizer must keep to stay whole, the cut itself, and how much of a text it covers."""
