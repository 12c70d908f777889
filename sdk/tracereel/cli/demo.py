"""`tracereel demo`: record a small agent pipeline; only the collector is contacted."""

import argparse
import logging
import os
import signal
import sys
import threading
from typing import Final

import tracereel
from tracereel.cli import connection
from tracereel.cli.stopping import Stopped, Stopper
from tracereel.config import Config
from tracereel.demo.examples import DEFAULT, EXAMPLES
from tracereel.demo.run import RunReport
from tracereel.logs import configure_logs
from tracereel.metrics_server import MetricsServer, start_metrics_server

SERVICE: Final = "tracereel-demo"
DEFAULT_RUNS: Final = 5
FLUSH_SECONDS: Final = 10.0
MAX_PORT: Final = 65535
UNANSWERED_SECONDS: Final = 2.0
"""Seconds without any delivery after which no collector is assumed."""
STOP_SECONDS: Final = 1.0
"""Seconds for delivery after a signal; the rest stays in the spool."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    connection.add_options(parser)
    parser.add_argument(
        "--example",
        choices=tuple(EXAMPLES),
        default=DEFAULT,
        help="What to run: a pipeline of agents (the default), a LangGraph orchestrator, or an agent"
        " that answers by Server-Sent Events.",
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--runs",
        type=connection.positive,
        default=DEFAULT_RUNS,
        metavar="N",
        help=f"How many runs (default: {DEFAULT_RUNS}).",
    )
    length.add_argument("--forever", action="store_true", help="Keep running until stopped.")
    parser.add_argument(
        "--interval",
        type=connection.seconds,
        default=1.0,
        metavar="SECONDS",
        help="Pause between runs (default: 1).",
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="Same number, same requests, answers and failures."
    )
    parser.add_argument(
        "--metrics",
        type=_address,
        metavar="[HOST:]PORT",
        help="Serve Prometheus metrics there (HOST: default 127.0.0.1; with --forever, a free port by"
        " default).",
    )
    parser.add_argument(
        "--until-stdin-closes",
        action="store_true",
        help="End when standard input closes: how a parent takes its demo with it.",
    )
    logs = parser.add_mutually_exclusive_group()
    logs.add_argument("--logs", action="store_true", help="Show the SDK's log lines as well.")
    logs.add_argument(
        "--quiet-logs",
        dest="logs",
        action="store_false",
        help="Leave the SDK's log lines out (the default).",
    )


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"expected [HOST:]PORT; got {text!r}")
    return host or "127.0.0.1", int(port)


def run(args: argparse.Namespace) -> int:
    """Run the example and deliver its events."""
    example = EXAMPLES[args.example]
    try:
        run_example = example.load()
    except ImportError as error:
        if example.extra is None:
            raise
        print(
            f"the example {args.example} needs more than the base install ({error});"
            f" install it with: pip install 'tracereel[{example.extra}]'",
            file=sys.stderr,
        )
        return 2
    stopper = Stopper()
    with stopper.watching():
        if args.until_stdin_closes:
            threading.Thread(target=_stop_when_stdin_closes, daemon=True).start()
        settings = connection.config_of(args)
        if args.logs:
            logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
            configure_logs(console=True)
        tracereel.configure(
            endpoint=args.endpoint,
            api_key=args.api_key,
            service=settings.service or SERVICE,
            event_logs=None if args.logs else "off",
            # Enables `tracereel replay TRACE_ID --run`; the environment takes precedence.
            record=os.environ.get("TRACEREEL_RECORD") or "all",
        )
        state = f"recording to {settings.endpoint}" if settings.enabled else "recording is off"
        print(state, flush=True)
        if args.metrics is not None:
            _serve_metrics(*args.metrics)
        elif args.forever:
            _announce(start_metrics_server() or start_metrics_server(0))
        status, hurry, has_failed = 0, False, False
        try:
            for report in run_example(
                runs=None if args.forever else args.runs,
                interval=args.interval,
                seed=args.seed,
                sleep=stopper.sleep,
            ):
                _print_report(report, given_endpoint=args.endpoint, endpoint=settings.endpoint)
                if report.failed and report.trace_id is not None and not has_failed:
                    has_failed = True
                    print(f"  see why: {settings.endpoint}/#{report.trace_id}", flush=True)
        except Stopped as stop:
            # A signal is the normal end of an endless demo.
            status = 0 if args.forever else 128 + stop.signal_number
            hurry = True
        try:
            with stopper.interruptible():
                _deliver(settings, hurry=hurry)
        except Stopped as stop:
            status = status or 128 + stop.signal_number
    return status


def _serve_metrics(host: str, port: int) -> None:
    server = start_metrics_server(port, addr=host)
    if server is None:
        # The reason is in the SDK's log, which the demo hides by default.
        print(
            f"no metrics: {host}:{port} cannot be listened on; is the port in use?",
            file=sys.stderr,
        )
        return
    _announce(server, host)


def _announce(server: MetricsServer | None, host: str = "127.0.0.1") -> None:
    if server is not None:
        print(f"metrics at http://{host}:{server.port}/metrics", flush=True)


def _stop_when_stdin_closes() -> None:
    # The descriptor, not sys.stdin: a daemon thread inside of a buffered read blocks the exit.
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _print_report(report: "RunReport", *, given_endpoint: str | None, endpoint: str) -> None:
    print(
        f"{report.trace_id or '-'}  {report.outcome}  {report.seconds:.2f} s  “{report.prompt}”",
        flush=True,
    )
    if report.number == 1 and report.trace_id is not None:
        there = f" --endpoint {given_endpoint}" if given_endpoint else ""
        print(f"  try: {connection.program()} replay {report.trace_id}{there}", flush=True)
        print(f"  or open: {endpoint}/#{report.trace_id}", flush=True)
        again = f"{connection.program()} replay {report.trace_id} --run{there}"
        print(f"  or run it again, without the model: {again}", flush=True)


def _deliver(settings: "Config", *, hurry: bool) -> None:
    if not hurry and tracereel.flush(UNANSWERED_SECONDS).delivered:
        tracereel.flush(FLUSH_SECONDS)
    result = tracereel.shutdown(STOP_SECONDS)
    if result.spooled:
        print(
            f"{result.spooled} events wait in the spool {settings.spool_dir}: no collector took"
            f" them; {connection.start_hint(settings.endpoint)}, then: {connection.program()} ship"
            f" --endpoint {settings.endpoint} --spool-dir {settings.spool_dir}",
            file=sys.stderr,
        )
    if result.dropped:
        print(f"{result.dropped} events were dropped", file=sys.stderr)
