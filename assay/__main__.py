"""`python -m assay`, the same as the command."""

from assay.cli import main

if __name__ == "__main__":
    main()
