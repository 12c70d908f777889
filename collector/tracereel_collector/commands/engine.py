"""`tracereel engine`: run the embedded store alone."""

import argparse
from pathlib import Path

from tracereel_collector.commands.reporting import command, settings_of
from tracereel_collector.processes.serve import run_engine_alone


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", type=Path, help="where the embedded store lives")


def _run(args: argparse.Namespace) -> int:
    return run_engine_alone(settings_of(args))


COMMAND = command("engine", "run the embedded store alone", _configure, _run)
