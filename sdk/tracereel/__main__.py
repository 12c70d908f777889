"""`python -m tracereel`: the command line, where the installed script is not on the path."""

import sys

from tracereel.cli import main

if __name__ == "__main__":
    sys.exit(main())
