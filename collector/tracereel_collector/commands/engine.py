"""`tracereel engine`: run the embedded store alone."""

import argparse
import os
import sys
from pathlib import Path

from tracereel.cli.command import Command
from tracereel_collector.config import Settings
from tracereel_collector.errors import StartupError
from tracereel_collector.processes.serve import run_engine_alone


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", type=Path, help="where the embedded store lives")


def _run(args: argparse.Namespace) -> int:
    try:
        return run_engine_alone(Settings.load(vars(args), os.environ))
    except StartupError as error:
        print(f"tracereel engine: {error.message}", file=sys.stderr)
        return 2


COMMAND = Command("engine", "run the embedded store alone", _configure, _run)
