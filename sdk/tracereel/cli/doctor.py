"""`tracereel doctor`: check configuration, connection, directories and installation."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tracereel import config
from tracereel.cli import checks, connection
from tracereel.cli.checks import Check
from tracereel.cli.spool_checks import spool, waiting
from tracereel.cli.terminal import Terminal, clean
from tracereel.cli.version import installed_version
from tracereel.client import Client, ClientError
from tracereel.errors import ConfigurationError

TIMEOUT_SECONDS: Final = 5.0
_DATA_DIR_VARIABLE: Final = "TRACEREEL_DATA_DIR"
_STYLES: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    connection.add_options(parser)
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="Also check this data directory of a collector"
        f" (default: ${_DATA_DIR_VARIABLE}, else none).",
    )
    parser.add_argument("--json", action="store_true", help="Print the findings as JSON.")


def run(args: argparse.Namespace) -> int:
    """Run all checks; the status is 1 if one failed."""
    found = list(_examine(args))
    usable = all(check.status != "fail" for check in found)
    if args.json:
        document = {"usable": usable, "checks": [asdict(check) for check in found]}
        print(json.dumps(document, indent=2))
    else:
        _print(found, Terminal.of(sys.stdout))
    return 0 if usable else 1


def _examine(args: argparse.Namespace) -> Iterator[Check]:
    given = {"endpoint": args.endpoint, "api_key": args.api_key}
    yield from checks.configured(given, os.environ)
    try:
        settings = config.load(**given)
        client = Client(settings.endpoint, settings.api_key or "", TIMEOUT_SECONDS)
    except (ConfigurationError, ClientError) as error:
        yield Check("reachable", "collector", "fail", str(error), "correct the settings first")
    else:
        yield checks.own_spans(settings)
        events_wait = any(each.events for each in waiting(settings.destination_dir))
        version = installed_version("tracereel")
        yield from checks.reachable(client, version, events_wait=events_wait)
        yield from spool(settings)
    yield from checks.metrics_servers()
    named = args.data_dir or os.environ.get(_DATA_DIR_VARIABLE)
    yield from checks.data_dir(Path(named).expanduser() if named else None)
    yield from checks.installed_parts()


def _print(found: list[Check], terminal: Terminal) -> None:
    area = ""
    for check in found:
        if check.area != area:
            area = check.area
            print(terminal.paint(area, "bold"))
        status = terminal.paint(f"{check.status:<4}", _STYLES[check.status])
        print(f"  {status}  {check.name}: {clean(check.detail)}")
        if check.advice:
            arrow = "→" if terminal.unicode else "->"
            print(f"        {arrow} {clean(check.advice)}")
