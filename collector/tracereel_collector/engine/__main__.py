"""`python -m tracereel_collector.engine`: the child process that a Supervisor starts."""

import sys

from tracereel_collector.engine.process import main

if __name__ == "__main__":
    sys.exit(main())
