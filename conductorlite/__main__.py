"""`python -m conductorlite`: the command line."""

import sys

from conductorlite.cli import main

if __name__ == "__main__":
    sys.exit(main())
