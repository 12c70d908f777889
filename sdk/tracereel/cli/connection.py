"""Command-line options for the connection to the collector, and option types."""

import argparse
import math
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tracereel import config

_START_HINT: Final = "start one with: tracereel serve"


def start_hint(endpoint: str) -> str:
    """Return a hint that names the command to start a collector."""
    port = urlsplit(endpoint).port
    usual = urlsplit(config.DEFAULT_ENDPOINT).port
    return _START_HINT if port in (None, usual) else f"{_START_HINT} --port {port}"


def program() -> str:
    """Return the command that runs this program: its name, its path or `python -m`."""
    if shutil.which("tracereel"):
        return "tracereel"
    script = Path(sys.executable).with_name("tracereel")
    if not script.exists():
        return "python -m tracereel"
    return os.path.relpath(script) if script.is_relative_to(Path.cwd()) else str(script)


def there(args: argparse.Namespace) -> str:
    """Return the endpoint option for suggested commands, or an empty string."""
    return f" --endpoint {shlex.quote(args.endpoint)}" if args.endpoint else ""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add `--endpoint` and `--api-key`."""
    table = config.settings()
    parser.add_argument(
        "--endpoint",
        metavar="URL",
        help="Address of the collector"
        f" (default: ${table['endpoint'].env}, else the one on this machine).",
    )
    parser.add_argument(
        "--api-key", metavar="KEY", help=f"API key (default: ${table['api_key'].env})."
    )


def config_of(args: argparse.Namespace) -> config.Config:
    """Return the settings: options, then the environment, then the defaults."""
    names = config.settings().keys() & vars(args).keys()
    return config.load(**{name: getattr(args, name) for name in names})


def number(text: str, expected: str = "a number", least: float = -math.inf) -> float:
    """Parse a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not {expected}")
    return value


def seconds(text: str) -> float:
    """Parse a finite number of seconds, at least 0."""
    return number(text, "a number of seconds, 0 or more", 0)


def times(text: str) -> float:
    """Parse a factor, at least 0."""
    if (value := number(text)) < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 0")
    return value


def positive(text: str) -> int:
    """Parse a whole number, at least 1."""
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 1 or more")
    return int(text)
