"""`tracereel trace`: show a run as a tree."""

import argparse
from typing import Final

from tracereel.cli.asking import add_options, asked, print_json, print_lines
from tracereel.cli.command import Command
from tracereel.cli.progress import progress
from tracereel.cli.registry import BASE_COMMANDS
from tracereel.cli.terminal import Terminal
from tracereel.cli.tree import render
from tracereel.client import Client


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace_id", metavar="TRACE_ID", help="The run to show.")
    add_options(parser, json_help="Print the collector's JSON.")
    parser.add_argument("--step", metavar="ID", help="Only this step and what is below it.")
    parser.add_argument(
        "--alone", action="store_true", help="Leave out the runs that this one started."
    )


def _run(args: argparse.Namespace) -> int:
    return asked(args, lambda client, terminal: _show(args, client, terminal))


def _show(args: argparse.Namespace, client: Client, terminal: Terminal) -> int:
    with progress("reading"):
        trace = client.trace(args.trace_id, step=args.step, linked=not args.alone)
    if args.json:
        print_json(trace.model_dump(mode="json", exclude_unset=True))
    else:
        print_lines(render(trace, terminal))
    return 0


COMMAND: Final = Command("trace", BASE_COMMANDS["trace"].help, _configure, _run)
