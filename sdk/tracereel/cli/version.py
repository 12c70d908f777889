"""`tracereel version`: print the installed version."""

import argparse
from importlib.metadata import PackageNotFoundError, version


def installed_version(distribution: str) -> str | None:
    """Return the version of an installed distribution; None if it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def configure(parser: argparse.ArgumentParser) -> None:
    """Add no options."""
    del parser


def run(args: argparse.Namespace) -> int:
    """Print the version."""
    del args
    print(f"tracereel {installed_version('tracereel') or '(version unknown: not installed)'}")
    return 0
