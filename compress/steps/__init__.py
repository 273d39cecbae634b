"""One compression method a file; the file name is the name in YAML."""
