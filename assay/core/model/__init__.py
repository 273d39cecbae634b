"""Models in memory: anatomy, edits, loading, prediction, graphs."""
