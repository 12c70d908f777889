"""`tracereel serve`: run the collector."""

import argparse
from pathlib import Path

from tracereel_collector.commands.reporting import command, settings_of
from tracereel_collector.processes.serve import serve


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default 4318)")
    parser.add_argument("--grpc-port", help="port for OTLP over gRPC (default 4317), or off")
    parser.add_argument("--data-dir", type=Path, help="where queue and embedded store live")
    parser.add_argument("--store", help="embedded, or clickhouse[s]://user:pass@host:port/db")
    parser.add_argument(
        "--workers", type=int, help="processes that accept requests (default: by the cores)"
    )
    parser.add_argument(
        "--forward-to", metavar="URL", help="OTLP/HTTP endpoint that everything received goes on to"
    )
    parser.add_argument(
        "--local-admin",
        action="store_const",
        const="on",
        help="let every process of this machine delete and set retention while there are no keys",
    )
    parser.add_argument(
        "--demo",
        action="store_true",
        help="also run the demo pipeline, emitting into this collector",
    )


def _run(args: argparse.Namespace) -> int:
    return serve(settings_of(args), demo=args.demo)


COMMAND = command("serve", "run the collector", _configure, _run)
