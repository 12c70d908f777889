"""`tracereel trace`: a run as a tree."""

import argparse
from typing import Final
from urllib.parse import quote

from tracereel.cli.asking import add_options, asked, print_json, print_lines
from tracereel.cli.command import Command
from tracereel.cli.progress import progress
from tracereel.cli.registry import BASE_COMMANDS
from tracereel.cli.terminal import Terminal
from tracereel.cli.tree import render
from tracereel.client import Client


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace_id", metavar="TRACE_ID", help="The run to show.")
    add_options(parser, json_help="Print the collector's JSON as it is, for machines.")
    parser.add_argument(
        "--alone", action="store_true", help="Leave out the runs that this one started."
    )


def _run(args: argparse.Namespace) -> int:
    return asked(args, lambda client, terminal: _show(args, client, terminal))


def _show(args: argparse.Namespace, client: Client, terminal: Terminal) -> int:
    with progress("reading"):
        trace = client.trace(args.trace_id, linked=not args.alone)
        raw = (
            client.fetch("GET", f"/v1/traces/{quote(args.trace_id, safe='')}").body
            if args.json
            else b""
        )
    if args.json:
        print_json(raw)
    else:
        print_lines(render(trace, terminal))
    return 0


COMMAND: Final = Command("trace", BASE_COMMANDS["trace"].help, _configure, _run)
