"""Everything that makes a model smaller."""
