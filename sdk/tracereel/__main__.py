"""Entry point for `python -m tracereel`."""

import sys

from tracereel.cli import main

if __name__ == "__main__":
    sys.exit(main())
