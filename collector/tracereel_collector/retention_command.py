"""`tracereel retention`: shows, sets or unsets how long a tenant's rows are kept."""

import argparse
import json
import sys
from typing import Any

from tracereel.cli import connection
from tracereel.cli.terminal import clean
from tracereel_collector.command_http import NoAnswerError, ask, message_of

EXIT_NO_ANSWER = 2


def configure(parser: argparse.ArgumentParser) -> None:
    """The three verbs and how to reach the collector."""
    parser.add_argument("verb", nargs="?", default="show", choices=["show", "set", "unset"])
    parser.add_argument("days", nargs="?", metavar="DAYS", help="how many, or 'forever'")
    connection.add_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")


def run(args: argparse.Namespace) -> int:
    """Do it; 0 done, 2 it could not be tried or was refused."""
    try:
        status, answer = _asked(args)
    except NoAnswerError as error:
        return _fail(str(error))
    if status != 200:
        return _fail(message_of(answer))
    print(json.dumps(answer) if args.json else clean(_sentence(answer)))
    return 0


def _asked(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    if args.verb != "set" and args.days is not None:
        raise NoAnswerError(f"{args.verb} takes no number of days; got {args.days!r}")
    if args.verb == "show":
        return ask(args, "GET", "/v1/retention")
    if args.verb == "unset":
        return ask(args, "DELETE", "/v1/retention")
    if args.days != "forever" and not (args.days or "").isdecimal():
        came = "nothing" if args.days is None else repr(args.days)
        raise NoAnswerError(f"set needs a number of days, or 'forever'; got {came}")
    days = None if args.days == "forever" else int(args.days)
    return ask(args, "POST", "/v1/retention", json.dumps({"days": days}).encode())


def _sentence(answer: dict[str, Any]) -> str:
    days = answer["days"]
    whose = "its own rule" if answer["from"] == "rule" else "the collector's setting"
    kept = f"{days} days after their arrival" if days else "for ever"
    reach = f"; its oldest are of {answer['oldest_day']}" if answer["oldest_day"] else ""
    return f"rows of tenant {answer['tenant']} are kept {kept} ({whose}){reach}"


def _fail(message: str) -> int:
    print(f"tracereel retention: {clean(message)}", file=sys.stderr)
    return EXIT_NO_ANSWER
