"""`python -m conductorlite.cli`."""

import sys

from conductorlite.cli import main

sys.exit(main())
