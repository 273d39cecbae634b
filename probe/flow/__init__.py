"""How attention of several layers together leads from the token that a classifier reads back to those of the text."""
