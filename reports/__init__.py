"""Reads the files of a finished run and compares its variants. Imports neither compress, probe, assay.run nor torch."""
