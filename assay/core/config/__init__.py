"""YAML to a checked Job, without importing torch."""
