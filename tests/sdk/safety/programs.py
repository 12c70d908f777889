"""Programs that run once as they are and once traced, and what can be said of the two afterwards."""

import re
import subprocess
from dataclasses import dataclass

from tests.support.ingest_sink import IngestSink

EITHER = """
    import os, signal, sys

    # A shell's background jobs, and what they start, ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    if os.environ.get("BARE"):
        def traced_agent(name):
            return lambda function: function
    else:
        from tracereel import traced_agent

    @traced_agent("a")
    def agent(number):
        return number
"""
"""The head of a program that is traced unless the environment says BARE."""


@dataclass(frozen=True)
class End:
    """How a process ended, as whoever started it sees it."""

    code: int
    out: str
    err: str


def end_of(process: "subprocess.Popen[str]") -> End:
    """Wait for a process; its own file is called the same in every run."""
    out, err = process.communicate(timeout=60)
    return End(process.returncode, out, re.sub(r"child_\d+\.py", "child.py", err))


def numbers_by_emitter(sink: IngestSink) -> dict[str, list[int]]:
    """The numbers of the events that arrived, in the order of arrival."""
    found: dict[str, list[int]] = {}
    for event in sink.events:
        found.setdefault(event["emitter_id"], []).append(event["emitter_seq"])
    return found


def assert_everything_once(sink: IngestSink, *, emitters: int, events: int) -> None:
    """So many processes have sent so many events, each its own, none missing, none kept twice.

    The sink, as the collector, drops what is sent again because its first answer was not seen.
    """
    numbers = numbers_by_emitter(sink)
    assert len(numbers) == emitters
    assert all(found == list(range(1, len(found) + 1)) for found in numbers.values())
    assert len(sink.events) == len({event["event_id"] for event in sink.events}) == events
