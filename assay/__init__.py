"""Assay: compress a pretrained transformer, and prove what it kept."""

__version__ = "0.1.0"
