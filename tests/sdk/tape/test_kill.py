"""kill -9 while recording: the tape is valid up to shortly before."""

import importlib
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import tracereel
from tests.sdk.conftest import Child
from tests.support.waiting import wait_until
from tracereel.tape import TapeEndedError
from tracereel.tape import format as tape_format

PROGRAM = """
from tracereel import traced_agent, traced_tool

answers = []


@traced_tool("step", effect="write")
def step(number):
    return answers[number] if number < len(answers) else {"number": number, "secret": hash(number)}


@traced_agent("worker")
def worker(steps):
    for number in range(steps):
        last = step(number)
        print(number, flush=True)
    return last


@traced_agent("together")
def together(steps):
    from concurrent.futures import ThreadPoolExecutor

    from tracereel import carry

    with ThreadPoolExecutor(3) as pool:
        for number in range(0, steps, 3):
            last = list(pool.map(carry(step), range(number, number + 3)))
            print(number, flush=True)
    return last


@traced_agent("at_once")
async def at_once(steps):
    import asyncio

    for number in range(0, steps, 3):
        last = await asyncio.gather(*(wait(number + n) for n in range(3)))
        print(number, flush=True)
    return last


@traced_tool("step", effect="write")
async def wait(number):
    import asyncio

    await asyncio.sleep(0.0001)
    return number
"""


def spooled(folder: Path) -> tape_format.Tape:
    """Return the tape in the spool, without the line being written."""
    events: list[dict[str, Any]] = []
    for segment in sorted((folder / "spool").rglob("*.ndjson")):
        for line in segment.read_bytes().splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                continue
    return tape_format.parse(events)


def ended(folder: Path) -> int:
    """Return how many calls on the spooled tape have an end."""
    try:
        return sum(call.end is not None for call in spooled(folder).boundaries())
    except tape_format.TapeError:
        return 0


def test_calls_that_ended_before_one_that_hangs_are_on_the_tape(
    child: Child, tmp_path: Path
) -> None:
    process = child(
        """
        import time
        import tracereel
        tracereel.configure(record="all", endpoint="http://127.0.0.1:9")

        @tracereel.traced_tool("step")
        def step(number):
            if number == 5:
                time.sleep(600)
            return number

        @tracereel.traced_agent("worker")
        def worker():
            for number in range(6):
                step(number)

        worker()
        """
    )
    wait_until(lambda: ended(tmp_path) == 5, timeout=30, message="an end of a call is missing")
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_forked_child_leaves_the_tape_of_its_parent_alone(child: Child, tmp_path: Path) -> None:
    process = child(
        """
        import os
        import tracereel
        tracereel.configure(record="all", endpoint="http://127.0.0.1:9", exit_timeout=0.0)

        @tracereel.traced_tool("step")
        def step(number):
            return number

        @tracereel.traced_agent("worker")
        def worker():
            step(1)
            child = os.fork()
            if child == 0:
                step(99)
                os._exit(0)
            os.waitpid(child, 0)
            step(2)

        worker()
        """
    )
    assert process.wait(60) == 0
    tape = spooled(tmp_path)

    assert tape.complete
    assert [tape.data(call.arguments) for call in tape.boundaries()] == [
        {"number": 1},
        {"number": 2},
    ]


@pytest.mark.parametrize("entry", ["worker", "together", "at_once"])
def test_a_killed_program_leaves_a_tape_that_replays_to_the_cut(
    child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    (tmp_path / "killed_program.py").write_text(PROGRAM)
    process = child(
        f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import tracereel
        tracereel.configure(record="all", endpoint="http://127.0.0.1:9")
        import asyncio
        from killed_program import {entry}
        result = {entry}(10**9)
        if asyncio.iscoroutine(result):
            asyncio.run(result)
        """
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "0"
    wait_until(lambda: ended(tmp_path) >= 40, timeout=30, message="the tape does not grow")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    tape = spooled(tmp_path)

    assert not tape.complete
    assert tape.state == "partly"
    monkeypatch.syspath_prepend(str(tmp_path))
    function = getattr(importlib.import_module("killed_program"), entry)
    with pytest.raises(TapeEndedError, match="ends here"), tracereel.replay(tape) as run:
        run.call(function)
    sys.modules.pop("killed_program")

    assert run.report.served >= ended(tmp_path) >= 40
    assert run.report.divergences == []
    assert run.report.ended_early
    assert "ends before the run did" in str(run.report)
