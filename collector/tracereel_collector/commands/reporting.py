"""Errors of commands as one line on stderr and an exit status."""

import argparse
import sys
from collections.abc import Callable
from functools import wraps

from tracereel_collector.config import Settings
from tracereel_collector.errors import CollectorError, StartupError, UnknownResourceError

Run = Callable[[argparse.Namespace], int]


def reported(command: str) -> Callable[[Run], Run]:
    """Print an expected error of a command; return 1 if something does not exist, else 2."""

    def wrap(run: Run) -> Run:
        @wraps(run)
        def wrapper(args: argparse.Namespace) -> int:
            try:
                return run(args)
            except CollectorError as error:
                hint = f" ({error.hint})" if error.hint else ""
                print(f"tracereel {command}: {error.message}{hint}", file=sys.stderr)
                return 1 if isinstance(error, UnknownResourceError) else 2

        return wrapper

    return wrap


def require_data_dir(settings: Settings) -> None:
    """Raise StartupError if the data directory does not exist."""
    if not settings.data_dir.is_dir():
        raise StartupError(
            f"there is no data directory {settings.data_dir}", hint="choose another with --data-dir"
        )
