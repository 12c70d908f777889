"""The options with which a command reaches the collector, read like every other setting."""

import argparse
import math
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tracereel import config

if TYPE_CHECKING:
    from tracereel.client import ReplayClient

_START_HINT: Final = "start one with: tracereel serve"


def start_hint(endpoint: str) -> str:
    """How to start a collector at an address; on another port than usual, that is said too."""
    port = urlsplit(endpoint).port
    usual = urlsplit(config.DEFAULT_ENDPOINT).port
    return _START_HINT if port in (None, usual) else f"{_START_HINT} --port {port}"


def program() -> str:
    """How this program is called from here: by its name, or by its path where it is on none."""
    if shutil.which("tracereel"):
        return "tracereel"
    script = Path(sys.executable).with_name("tracereel")
    if not script.exists():
        return "python -m tracereel"
    return os.path.relpath(script) if script.is_relative_to(Path.cwd()) else str(script)


def there(args: argparse.Namespace) -> str:
    """What a command that is named to the user needs besides, to reach the collector of this one."""
    return f" --endpoint {args.endpoint}" if args.endpoint else ""


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
    """The settings in force: the options given, else the environment, else the defaults.

    Raises:
        ConfigurationError: an option or a variable has a value that cannot be used.
    """
    names = config.settings().keys() & vars(args).keys()
    return config.load(**{name: getattr(args, name) for name in names})


def client_of(settings: config.Config, *, timeout: float) -> "ReplayClient":
    """A client for the collector that the settings name."""
    # Its models take a while to make, and most commands, `serve` among them, ask for none.
    from tracereel.client import ReplayClient

    return ReplayClient(settings.endpoint, settings.api_key, timeout)


def seconds(text: str) -> float:
    """An option's duration: a finite number of seconds, zero or more."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return value


def number(text: str) -> float:
    """An option's figure: any number but infinity and what is none."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value


def times(text: str) -> float:
    """An option's factor: a number, zero or more."""
    value = number(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 0")
    return value


def positive(text: str) -> int:
    """An option's count: a whole number, one or more."""
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 1 or more")
    return int(text)
