"""Programs that run once untraced and once traced, and checks of both."""

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
"""Head of a program that is traced unless BARE is set in the environment."""


@dataclass(frozen=True)
class End:
    """Exit code and output of a process."""

    code: int
    out: str
    err: str


def end_of(process: "subprocess.Popen[str]") -> End:
    """Wait for a process; normalise the name of its file."""
    out, err = process.communicate(timeout=60)
    return End(process.returncode, out, re.sub(r"child_\d+\.py", "child.py", err))


def numbers_by_emitter(sink: IngestSink) -> dict[str, list[int]]:
    """Return the sequence numbers of the received events, in order of arrival."""
    found: dict[str, list[int]] = {}
    for event in sink.events:
        found.setdefault(event["emitter_id"], []).append(event["emitter_seq"])
    return found


def assert_everything_once(sink: IngestSink, *, emitters: int, events: int) -> None:
    """Check that so many processes sent so many events, none missing and none duplicated.

    Like the collector, the sink drops events that are resent because a response was lost.
    """
    numbers = numbers_by_emitter(sink)
    assert len(numbers) == emitters
    assert all(found == list(range(1, len(found) + 1)) for found in numbers.values())
    assert len(sink.events) == len({event["event_id"] for event in sink.events}) == events
