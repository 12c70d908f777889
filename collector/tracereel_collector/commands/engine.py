"""`tracereel engine`: run the embedded store alone."""

import argparse
import os
from pathlib import Path

from tracereel.cli.command import Command
from tracereel_collector.commands.reporting import reported
from tracereel_collector.config import Settings
from tracereel_collector.processes.serve import run_engine_alone


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", type=Path, help="where the embedded store lives")


@reported("engine")
def _run(args: argparse.Namespace) -> int:
    return run_engine_alone(Settings.load(vars(args), os.environ))


COMMAND = Command("engine", "run the embedded store alone", _configure, _run)
