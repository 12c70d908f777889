"""`tracereel schema`: print the tables and views for one server or a cluster."""

import argparse

from tracereel_collector.commands.reporting import command
from tracereel_collector.store.cluster import cluster_schema
from tracereel_collector.store.sql import migrations


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cluster", help="a cluster's name, as in the servers' remote_servers")
    parser.add_argument("--database", default="tracereel", help="the database (default tracereel)")


def _run(args: argparse.Namespace) -> int:
    if args.cluster:
        statements = cluster_schema(cluster=args.cluster, database=args.database)
    else:
        statements = [each for migration in migrations() for each in migration.statements]
    for statement in statements:
        print(f"{statement};\n")
    return 0


COMMAND = command(
    "schema", "print the tables and views, for a server or a cluster", _configure, _run
)
