"""Program exit: same exit code and output as without the SDK, and no data loss."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.conftest import Child, spool_files
from tests.sdk.safety.programs import EITHER, assert_everything_once, end_of
from tests.support.ingest_sink import Behaviour, IngestSink
from tracereel import FlushResult, config
from tracereel._export.leftovers import ship_leftovers

CALLS = 5
ENDINGS = {
    "normal": "pass",
    "exception": "raise ValueError('the end')",
    "sys.exit": "sys.exit('sorry')",
    "os._exit": "os._exit(4)",
    "SIGTERM": "os.kill(os.getpid(), signal.SIGTERM); signal.pause()",
    "SIGTERM handled": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5));"
        " os.kill(os.getpid(), signal.SIGTERM); signal.pause()"
    ),
    "SIGINT": "os.kill(os.getpid(), signal.SIGINT); signal.pause()",
    "exception in a traced call": (
        "\n    @traced_agent('b')"
        "\n    def fail():"
        "\n        raise ValueError('inside')"
        "\n    try:"
        "\n        fail()"
        "\n    except ValueError:"
        "\n        pass"
    ),
}
ABRUPT = ("os._exit", "SIGTERM")
"""Exits without exit handlers: undelivered events wait on disk."""


@pytest.fixture
def no_listener() -> Iterator[str]:
    """Return an address that refuses connections and stays reserved."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_program_ends_as_it_would_without_us(
    child: Child, no_listener: str, tmp_path: Path, ending: str
) -> None:
    """Code, output and errors equal those of the bare program, with any kind of collector."""
    program = EITHER + f"    [agent(number) for number in range({CALLS})]; {ENDINGS[ending]}"
    recorded = 2 * CALLS + 2 * ("traced call" in ending)
    off = {"TRACEREEL_EVENT_LOGS": "off"}  # otherwise a failure is a line on standard error
    with IngestSink() as well, IngestSink() as hanging:
        hanging.behaviour = Behaviour(hang=True)
        bare = child(program, BARE="1")
        traced = {
            url: child(program, TRACEREEL_ENDPOINT=url, TRACEREEL_EXIT_TIMEOUT=timeout, **off)
            for url, timeout in ((well.url, "30"), (no_listener, "30"), (hanging.url, "0.2"))
        }
        expected = end_of(bare)
        assert {url: end_of(process) for url, process in traced.items()} == dict.fromkeys(
            traced, expected
        )
        if ending not in ABRUPT:
            assert_everything_once(well, emitters=1, events=recorded)
        hanging.behaviour = Behaviour()
        ship_leftovers(config.load(endpoint=well.url))
        ship_leftovers(config.load(endpoint=hanging.url))
        assert_everything_once(well, emitters=1, events=recorded)
        assert_everything_once(hanging, emitters=1, events=recorded)
    left = config.load(endpoint=no_listener)
    assert ship_leftovers(left, timeout=0.0) == FlushResult(0, recorded, 0)
    assert spool_files(tmp_path / "spool") == spool_files(left.destination_dir)


def test_a_generator_closed_by_the_end_of_the_interpreter_waits_for_no_thread_of_the_past(
    sink: IngestSink, child: Child, tmp_path: Path
) -> None:
    """Daemon threads stop anywhere, possibly holding our locks; the exit continues."""
    (tmp_path / "busy.py").write_text(
        "import threading, tracereel\n"
        "agent = tracereel.traced_agent('a')(lambda number: number)\n"
        "def work():\n"
        "    while True:\n"
        "        agent(0)\n"
        "def start():\n"
        "    for _ in range(4):\n"
        "        threading.Thread(target=work, daemon=True).start()\n"
    )
    ended = end_of(
        child(
            """
            import os
            import busy, tracereel

            @tracereel.traced_agent("stream")
            def stream():
                yield 1
                yield 2

            @tracereel.traced_agent("last")
            def last():
                return "called"

            class Holder:
                def __init__(self):
                    self.stream = stream()
                    next(self.stream)

                def __del__(self, write=os.write, last=last, flush=tracereel.flush):
                    self.stream.close()
                    flush(60.0)
                    write(1, last().encode())

            holder = Holder()
            busy.start()
            while tracereel.flush().delivered < 200:
                pass
            """,
            TRACEREEL_ENDPOINT=sink.url,
        )
    )
    assert (ended.code, ended.out, ended.err) == (0, "called", "")


def test_the_first_event_of_all_in_an_exit_handler_is_delivered(
    sink: IngestSink, child: Child, tmp_path: Path
) -> None:
    """Some Python versions start no thread this late: the event is delivered without one."""
    ended = end_of(
        child(
            EITHER + "    import atexit; atexit.register(agent, 1)",
            TRACEREEL_ENDPOINT=sink.url,
            TRACEREEL_EXIT_TIMEOUT="30",
        )
    )
    assert (ended.code, ended.err) == (0, "")
    assert_everything_once(sink, emitters=1, events=2)
    assert spool_files(tmp_path / "spool") == []


def test_an_exit_that_is_interrupted_ends_at_once_and_quietly(
    sink: IngestSink, child: Child
) -> None:
    """Ctrl-C while waiting for the collector: the rest stays on disk, without output."""
    sink.behaviour = Behaviour(hang=True)
    process = child(
        EITHER
        + """
    import tracereel._core.recorder as recorder

    agent(1)
    close = recorder.Recorder.close
    def close_and_tell(*args, **options):
        print("waiting", flush=True)
        return close(*args, **options)
    recorder.Recorder.close = close_and_tell
    """,
        TRACEREEL_ENDPOINT=sink.url,
        TRACEREEL_EXIT_TIMEOUT="3600",
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    ended = end_of(process)
    assert (ended.code, ended.err) == (0, "")
    sink.behaviour = Behaviour()
    assert ship_leftovers(config.load(endpoint=sink.url)) == FlushResult(2, 0, 0)
