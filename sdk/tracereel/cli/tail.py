"""`tracereel tail`: print each record that the collector acknowledges, live."""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from tracereel.cli.asking import add_filters, add_options, collector_command, filters_of, print_json
from tracereel.cli.connection import positive
from tracereel.cli.steps import joined, kind_of, words_of
from tracereel.cli.terminal import Terminal, clean, display_width
from tracereel.cli.timeline import local_time
from tracereel.client import Client, Step
from tracereel.client.streams import ServerSentEvent

_NAME_WIDTH: Final = 22
_STATUSES: Final = ("success", "partial_success", "failed", "cancelled")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_options(parser, json_help="Print each record as JSON, one a line.")
    add_filters(parser, status=f"{', '.join(_STATUSES)}, or what else a record says of itself.")
    parser.add_argument("--type", action="append", metavar="TYPE", help="Event type, or `agent.`.")
    parser.add_argument("--trace", action="append", metavar="TRACE_ID", help="Run.")
    parser.add_argument("-n", "--count", type=positive, metavar="N", help="End after so many.")
    parser.add_argument(
        "--after", metavar="NUMBER", help="Begin behind this sequence number, where still there."
    )


@collector_command
def run(args: argparse.Namespace, client: Client, terminal: Terminal) -> int:
    """Print records as they arrive."""
    filters = filters_of(args, "type", "trace")
    left = args.count
    _doubt(args.status or ())
    with client.tail(last_event_id=args.after, on_notice=_notice, **filters) as stream:
        try:
            for step in stream:
                if args.json:
                    print_json({"time": step.time, "event": step.event, "details": step.details})
                else:
                    print(line_of(step, terminal), flush=True)
                left = None if left is None else left - 1
                if left == 0:
                    return 0
        except KeyboardInterrupt:
            return 0  # Ctrl-C is the normal way to stop
    return 0


def _doubt(statuses: Sequence[str]) -> None:
    """Warn about unusual statuses, because a typo would wait without any output."""
    for status in statuses:
        if status not in _STATUSES:
            print(
                f"tracereel tail: few records have the status {clean(status)!r};"
                f" most that end have one of {', '.join(_STATUSES)}",
                file=sys.stderr,
            )


def line_of(step: Step, terminal: Terminal) -> str:
    """Return one line for a record: time, name, description and run."""
    kind, words = kind_of(step.event), words_of(step.event, step.details)
    when = local_time(step.time)
    symbol = kind.symbol if terminal.unicode else kind.ascii_symbol
    run = terminal.shown(clean(step.details.get("trace_id") or ""))
    room = terminal.width - len(when) - 4
    if display_width(run) > room // 3:
        run = terminal.fit(run, room // 3)
    room -= display_width(run) + 2
    width = min(_NAME_WIDTH, max(1, (room + 1) // 2))
    name, text = terminal.columns(words.name, joined(words.parts), room, least=width, most=width)
    fill = " " * (room - display_width(name) - display_width(text))
    return (
        f"{terminal.paint(when, 'dim')}  {terminal.paint(symbol, kind.style)}"
        f" {terminal.paint(name, 'bold')} {terminal.paint_failure(text, kind.style)}{fill}"
        f" {terminal.paint(run, 'dim')}"
    ).rstrip()


def _notice(message: ServerSentEvent) -> None:
    notice = {
        "gap": "some records may not be shown here",
        "lagged": "records came faster than they were read; going on behind the last one",
        "end": "the collector ended the stream",
    }.get(message.event, message.event)
    print(f"tracereel tail: {clean(notice)} ({clean(message.data)})", file=sys.stderr)
