"""`tracereel quarantine`: list, show, retry or drop quarantined records."""

import argparse
import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from tracereel.cli import connection
from tracereel.cli.asking import EXIT_NO_ANSWER, failed, with_client
from tracereel.cli.command import Command
from tracereel.cli.terminal import clean
from tracereel.client import Client

PATH = "/v1/quarantine"
PAGE = 1000


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("verb", choices=["list", "show", "retry", "drop"])
    parser.add_argument("id", nargs="?", help="an entry's id, or 'all' to retry or drop everything")
    connection.add_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")


def _run(args: argparse.Namespace) -> int:
    """Run the verb; return 0 on success, 1 if the entry does not exist, 2 after an error."""
    every = args.id == "all" and args.verb in ("retry", "drop")
    if args.verb != "list" and not every and not (args.id or "").isdecimal():
        all_of_them = "" if args.verb == "show" or args.id is None else " or 'all'"
        came = "" if args.id is None else f"; got {args.id!r}"
        message = f"{args.verb} needs the id of an entry{all_of_them}{came}; see: tracereel quarantine list"
        return failed("quarantine", message, EXIT_NO_ANSWER)
    does = {"list": _list, "show": _show, "retry": _each, "drop": _each}[args.verb]
    return with_client(args, lambda client, _: does(args, client))


def _list(args: argparse.Namespace, client: Client) -> int:
    found = list(_entries(client))
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


def _show(args: argparse.Namespace, client: Client) -> int:
    entry = client.document(client.fetch("GET", f"{PATH}/{args.id}").body)
    if args.json:
        print(json.dumps(entry))
    else:
        for key, value in entry.items():
            print(clean(f"{key}: {value}"))
    return 0


def _each(args: argparse.Namespace, client: Client) -> int:
    everything = args.id == "all"
    ids = [each["id"] for each in _entries(client)] if everything else [args.id]
    done = 0
    for entry_id in ids:
        path = f"{PATH}/{entry_id}"
        answer = (
            client.ask("POST", f"{path}/retry")
            if args.verb == "retry"
            else client.ask("DELETE", path)
        )
        if everything and answer.status == HTTPStatus.NOT_FOUND:
            continue  # gone since it was listed
        client.refuse_failure(answer)
        done += 1
    print(f"{done} {'queued for delivery' if args.verb == 'retry' else 'dropped'}")
    return 0


def _entries(client: Client) -> Iterator[dict[str, Any]]:
    before: int | None = None
    while True:
        page = client.document(client.fetch("GET", PATH, {"limit": PAGE, "before": before}).body)
        yield from page["entries"]
        before = page["next"]
        if not before:
            return


COMMAND = Command("quarantine", "list, show, retry or drop quarantined records", _configure, _run)
