"""`tracereel quarantine`: looks into a running collector's quarantine, retries or drops what is in it."""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from tracereel.cli import connection
from tracereel.cli.terminal import clean
from tracereel_collector.command_http import NoAnswerError, ask, message_of

EXIT_NONE = 1
EXIT_NO_ANSWER = 2
_EVERY = (("all", "retry"), ("all", "drop"))


def configure(parser: argparse.ArgumentParser) -> None:
    """The four verbs and how to reach the collector."""
    parser.add_argument("verb", choices=["list", "show", "retry", "drop"])
    parser.add_argument("id", nargs="?", help="an entry's id, or 'all' to retry or drop everything")
    connection.add_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")


def run(args: argparse.Namespace) -> int:
    """Do it; 0 done, 1 there was nothing of that name, 2 it could not be tried."""
    if args.verb != "list" and args.id is None:
        return _fail(f"{args.verb} needs the id of an entry; see: tracereel quarantine list")
    if args.verb != "list" and not args.id.isdecimal() and (args.id, args.verb) not in _EVERY:
        every = "" if args.verb == "show" else " or 'all'"
        return _fail(
            f"{args.verb} needs the id of an entry{every}; got {args.id!r}; see: tracereel"
            " quarantine list"
        )
    try:
        if args.verb == "list":
            return _list(args)
        if args.verb == "show":
            return _show(args)
        return _each(args)
    except NoAnswerError as error:
        return _fail(str(error))


def _list(args: argparse.Namespace) -> int:
    found = list(_entries(args))
    if args.json:
        print(json.dumps(found))
    elif not found:
        print("the quarantine is empty")
    else:
        print(f"{'id':>8}  {'kind':8} {'number':>12} {'records':>7} {'bytes':>9}  since, reason")
        for each in found:
            line = (
                f"{each['id']:>8}  {each['kind']:8} {each['sequence_number']:>12}"
                f" {each['records']:>7} {each['bytes']:>9}  {each['quarantined']} {each['reason']}"
            )
            print(clean(line))
    return 0


def _show(args: argparse.Namespace) -> int:
    status, answer = ask(args, "GET", f"/v1/quarantine/{args.id}")
    if status != 200:
        return _fail(message_of(answer), EXIT_NONE)
    if args.json:
        print(json.dumps(answer))
    else:
        for key, value in answer.items():
            print(clean(f"{key}: {value}"))
    return 0


def _each(args: argparse.Namespace) -> int:
    ids = [each["id"] for each in _entries(args)] if args.id == "all" else [args.id]
    done = 0
    for entry_id in ids:
        path = f"/v1/quarantine/{entry_id}"
        status, answer = (
            ask(args, "POST", f"{path}/retry")
            if args.verb == "retry"
            else ask(args, "DELETE", path)
        )
        if status == 200:
            done += 1
        elif args.id != "all":
            return _fail(message_of(answer), EXIT_NONE)
    print(f"{done} {'queued for delivery' if args.verb == 'retry' else 'dropped'}")
    return 0


def _entries(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    path: str | None = "/v1/quarantine?limit=1000"
    while path is not None:
        status, answer = ask(args, "GET", path)
        if status != 200:
            raise NoAnswerError(message_of(answer))
        yield from answer["entries"]
        following = answer["next"]
        path = f"/v1/quarantine?limit=1000&before={following}" if following else None


def _fail(message: str, status: int = EXIT_NO_ANSWER) -> int:
    print(f"tracereel quarantine: {clean(message)}", file=sys.stderr)
    return status
