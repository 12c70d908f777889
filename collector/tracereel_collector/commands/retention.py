"""`tracereel retention`: show, set or unset how long a tenant's rows are kept."""

import argparse
import json
from collections.abc import Mapping
from typing import Any

from tracereel.cli import connection
from tracereel.cli.asking import EXIT_NO_ANSWER, failed, with_client
from tracereel.cli.command import Command
from tracereel.cli.terminal import clean
from tracereel.client import Client

PATH = "/v1/retention"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("verb", nargs="?", default="show", choices=["show", "set", "unset"])
    parser.add_argument("days", nargs="?", metavar="DAYS", help="how many, or 'forever'")
    connection.add_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")


def _run(args: argparse.Namespace) -> int:
    """Run the verb; return 0 on success, 2 after an error."""
    problem = None
    if args.verb != "set" and args.days is not None:
        problem = f"{args.verb} takes no number of days; got {args.days!r}"
    elif args.verb == "set" and args.days != "forever" and not (args.days or "").isdecimal():
        came = "nothing" if args.days is None else repr(args.days)
        problem = f"set needs a number of days, or 'forever'; got {came}"
    if problem is not None:
        return failed("retention", problem, EXIT_NO_ANSWER)
    return with_client(args, lambda client, _: _show(args, _answer(args, client)))


def _answer(args: argparse.Namespace, client: Client) -> Mapping[str, Any]:
    if args.verb == "set":
        days = None if args.days == "forever" else int(args.days)
        return client.post_json(PATH, {"days": days})
    method = "DELETE" if args.verb == "unset" else "GET"
    return client.document(client.fetch(method, PATH).body)


def _show(args: argparse.Namespace, rule: Mapping[str, Any]) -> int:
    print(json.dumps(rule) if args.json else clean(_sentence(rule)))
    return 0


def _sentence(answer: Mapping[str, Any]) -> str:
    days = answer["days"]
    whose = "its own rule" if answer["from"] == "rule" else "the collector's setting"
    kept = f"{days} days after their arrival" if days else "for ever"
    reach = f"; its oldest are of {answer['oldest_day']}" if answer["oldest_day"] else ""
    return f"rows of tenant {answer['tenant']} are kept {kept} ({whose}){reach}"


COMMAND = Command("retention", "show or set how long rows are kept", _configure, _run)
