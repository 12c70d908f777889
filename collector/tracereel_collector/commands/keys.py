"""`tracereel keys`: create, list and revoke API keys, also while a collector runs."""

import argparse
import getpass
import json
import sys
from pathlib import Path
from typing import Any

from tracereel_collector.auth.keys import DEFAULT_TENANT, Key, parse_scopes
from tracereel_collector.auth.keystore import KeyStore
from tracereel_collector.commands.reporting import command, settings_of
from tracereel_collector.runtime.permissions import make_files_private


def _configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="make a key and print it, this once")
    create.add_argument("--tenant", default=DEFAULT_TENANT, help="whose key (default: default)")
    create.add_argument(
        "--scope", default="write,read", help="some of write, read, admin (default write,read)"
    )
    create.add_argument("--name", default="", help="what it is for, to recognise it by")
    create.add_argument("--expires", metavar="WHEN", help="90d, 12h, or a date such as 2027-01-31")
    listing = actions.add_parser("list", help="show what is known of the keys, never a key")
    listing.add_argument("--tenant", help="only the keys of this tenant")
    revoke = actions.add_parser("revoke", help="end a key for good")
    revoke.add_argument("id", metavar="ID", help="the id that list shows")
    for action in (create, listing, revoke):
        action.add_argument("--data-dir", type=Path, help="data directory of the collector")
        action.add_argument("--json", action="store_true", help="print JSON")


def _run(args: argparse.Namespace) -> int:
    make_files_private()
    # An empty list of a missing directory would look like a collector without keys.
    settings = settings_of(args, must_exist=args.action != "create")
    return _ACTIONS[args.action](KeyStore.of(settings.data_dir), args)


def _create(store: KeyStore, args: argparse.Namespace) -> int:
    secret, key = store.create(
        tenant=args.tenant,
        scopes=parse_scopes(args.scope),
        name=args.name,
        expires=args.expires,
        by=_who(),
    )
    if args.json:
        print(json.dumps({"key": secret, **store.document(key)}))
    else:
        # Only the key goes to stdout, so that scripts can capture it.
        print(secret)
        print(
            f"key {key.id} of tenant {key.tenant} ({', '.join(sorted(key.scopes))});"
            " it is not shown again",
            file=sys.stderr,
        )
    return 0


def _list(store: KeyStore, args: argparse.Namespace) -> int:
    keys = store.list(tenant=args.tenant)
    if args.json:
        print(json.dumps([store.document(key) for key in keys]))
    else:
        _table(store, keys)
    return 0


def _revoke(store: KeyStore, args: argparse.Namespace) -> int:
    key = store.revoke(args.id, by=_who())
    print(json.dumps(store.document(key)) if args.json else f"key {key.id} is revoked")
    return 0


def _table(store: KeyStore, keys: list[Key]) -> None:
    columns = ("id", "tenant", "scopes", "state", "created", "expires", "name")
    rows: list[dict[str, Any]] = [
        {**store.document(key), "scopes": ",".join(sorted(key.scopes))} for key in keys
    ]
    texts = [[str(row[column] or "-") for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    for cells in ([*columns], *texts):
        line = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        print(line.rstrip())


def _who() -> str:
    try:
        return f"command of {getpass.getuser()}"
    except (KeyError, OSError):
        return "command"


_ACTIONS = {"create": _create, "list": _list, "revoke": _revoke}

COMMAND = command("keys", "make, list and revoke API keys", _configure, _run)
