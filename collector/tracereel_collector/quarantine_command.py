"""`tracereel quarantine`: looks into a running collector's quarantine, retries or drops what is in it."""

import argparse
import http.client
import json
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from tracereel.cli import connection
from tracereel.cli.terminal import clean

EXIT_NONE = 1
EXIT_NO_ANSWER = 2
SECONDS = 30.0


class _NoAnswerError(Exception):
    """The collector cannot be asked, or says no; the message is for the user."""


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
    try:
        if args.verb == "list":
            return _list(args)
        if args.verb == "show":
            return _show(args)
        return _each(args)
    except _NoAnswerError as error:
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
    status, answer = _ask(args, "GET", f"/v1/quarantine/{args.id}")
    if status != 200:
        return _fail(_message(answer), EXIT_NONE)
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
            _ask(args, "POST", f"{path}/retry")
            if args.verb == "retry"
            else _ask(args, "DELETE", path)
        )
        if status == 200:
            done += 1
        elif args.id != "all":
            return _fail(_message(answer), EXIT_NONE)
    print(f"{done} {'queued for delivery' if args.verb == 'retry' else 'dropped'}")
    return 0


def _entries(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    path: str | None = "/v1/quarantine?limit=1000"
    while path is not None:
        status, answer = _ask(args, "GET", path)
        if status != 200:
            raise _NoAnswerError(_message(answer))
        yield from answer["entries"]
        following = answer["next"]
        path = f"/v1/quarantine?limit=1000&before={following}" if following else None


def _ask(args: argparse.Namespace, method: str, path: str) -> tuple[int, dict[str, Any]]:
    settings = connection.config_of(args)
    address = urlsplit(settings.endpoint)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    headers = {"x-api-key": settings.api_key} if settings.api_key else {}
    link = kind(address.hostname or "", address.port, timeout=SECONDS)
    try:
        link.request(method, address.path.rstrip("/") + path, headers=headers)
        response = link.getresponse()
        return response.status, json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _NoAnswerError(
            f"no answer from {settings.endpoint}: {error}; {connection.START_HINT}"
        ) from error
    finally:
        link.close()


def _message(answer: dict[str, Any]) -> str:
    error = answer.get("error")
    return str(error.get("message")) if isinstance(error, dict) else str(answer)


def _fail(message: str, status: int = EXIT_NO_ANSWER) -> int:
    print(f"tracereel quarantine: {clean(message)}", file=sys.stderr)
    return status
