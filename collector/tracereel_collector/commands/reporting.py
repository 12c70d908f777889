"""Shared parts of the commands: settings, and errors as one line on stderr and an exit status."""

import argparse
import os
import sys
from collections.abc import Callable

from tracereel.cli.command import Command
from tracereel_collector.config import Settings
from tracereel_collector.errors import CollectorError, StartupError, UnknownResourceError


def command(
    name: str,
    summary: str,
    configure: Callable[[argparse.ArgumentParser], None],
    run: Callable[[argparse.Namespace], int],
) -> Command:
    """Return a command that prints expected errors; status 1 if something is missing, else 2."""

    def reported(args: argparse.Namespace) -> int:
        try:
            return run(args)
        except CollectorError as error:
            hint = f" ({error.hint})" if error.hint else ""
            print(f"tracereel {name}: {error.message}{hint}", file=sys.stderr)
            return 1 if isinstance(error, UnknownResourceError) else 2

    return Command(name, summary, configure, reported)


def settings_of(args: argparse.Namespace, *, must_exist: bool = False) -> Settings:
    """Return the settings of a command; refuse a missing data directory if it must exist."""
    settings = Settings.load(vars(args), os.environ)
    if must_exist and not settings.data_dir.is_dir():
        raise StartupError(
            f"there is no data directory {settings.data_dir}", hint="choose another with --data-dir"
        )
    return settings
