"""`tracereel version`: print the installed version."""

import argparse
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from tracereel.cli.command import Command
from tracereel.cli.registry import BASE_COMMANDS


def installed_version(distribution: str) -> str | None:
    """Return the version of an installed distribution; None if it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _configure(parser: argparse.ArgumentParser) -> None:
    del parser  # no options


def _run(args: argparse.Namespace) -> int:
    del args
    print(f"tracereel {installed_version('tracereel') or '(version unknown: not installed)'}")
    return 0


COMMAND: Final = Command("version", BASE_COMMANDS["version"].help, _configure, _run)
