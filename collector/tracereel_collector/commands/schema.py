"""`tracereel schema`: create, upgrade or print the tables of a server or of a cluster."""

import argparse
import os
from contextlib import closing

from tracereel_collector.commands.reporting import command
from tracereel_collector.config import Settings
from tracereel_collector.errors import StartupError
from tracereel_collector.startup.data_dir import maintenance_store
from tracereel_collector.startup.schema import apply_schema
from tracereel_collector.store.clickhouse import StoreAddress
from tracereel_collector.store.layout import Layout
from tracereel_collector.store.sql import migrations


def _configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    apply = actions.add_parser("apply", help="create or upgrade the tables of the store")
    apply.add_argument(
        "--store",
        help="clickhouse[s]://user:pass@host:port/db; of a cluster, any node (default TRACEREEL_STORE)",
    )
    where = apply.add_mutually_exclusive_group()
    where.add_argument(
        "--cluster", help="the cluster, as in remote_servers (default: the one the server is in)"
    )
    where.add_argument(
        "--one-server",
        action="store_true",
        help="use this server alone, although it is in a cluster",
    )
    apply.add_argument(
        "--nodes",
        metavar="HOST:PORT,…",
        default="",
        help="HTTP addresses of all nodes (default: the hosts of remote_servers, the port of --store)",
    )
    shown = actions.add_parser("print", help="print the statements")
    shown.add_argument(
        "--cluster", default="", help="for a cluster of this name (default: one server)"
    )


def _run(args: argparse.Namespace) -> int:
    return _print(args.cluster) if args.action == "print" else _apply(args)


def _print(cluster: str) -> int:
    for migration in migrations(layout=Layout(cluster)):
        for statement in migration.statements:
            print(f"{statement.strip()};\n")
    return 0


def _apply(args: argparse.Namespace) -> int:
    store = Settings.load({"store": args.store}, os.environ).store
    if store == "embedded":
        raise StartupError(
            "the embedded store gets its schema from tracereel serve",
            hint="name a server with --store clickhouse://user:pass@host:port/db",
        )
    with closing(maintenance_store(StoreAddress.parse(store))) as target:
        applied = apply_schema(
            target,
            cluster=args.cluster,
            one_server=args.one_server,
            nodes=[each for each in args.nodes.split(",") if each],
            report=lambda node, what: print(f"{node.address}: {what}", flush=True),
        )
    print(f"{len(applied)} migrations applied" if applied else "the schema is complete")
    return 0


COMMAND = command(
    "schema", "create, upgrade or print the tables of a server or a cluster", _configure, _run
)
