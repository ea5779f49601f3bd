"""`python -m rheos_cli`: the same as `rheos`."""

from __future__ import annotations

import sys

from rheos_cli.main import main

if __name__ == "__main__":
    sys.exit(main())
