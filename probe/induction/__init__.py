"""Trees read from a model without training anything, and their scores against a treebank."""
