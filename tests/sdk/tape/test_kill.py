"""kill -9 while a run is recorded: its tape is good up to the last call that had ended."""

import importlib
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import tracereel
from tests.sdk.conftest import Child
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
"""


def test_a_killed_program_leaves_a_tape_that_replays_to_the_cut(
    child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "killed_program.py").write_text(PROGRAM)
    process = child(
        f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import tracereel
        tracereel.configure(record="all", endpoint="http://127.0.0.1:9")
        from killed_program import worker
        worker(10**9)
        """
    )
    assert process.stdout is not None
    seen = -1
    while seen < 40:
        seen = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.wait()
    events: list[dict[str, Any]] = []
    for segment in sorted((tmp_path / "spool").rglob("*.ndjson")):
        for line in segment.read_bytes().splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                continue  # the line that was being written
    tape = tape_format.parse(events)
    ended = [call for call in tape.boundaries() if call.end is not None]

    assert not tape.complete
    assert tape.state == "partly"
    assert len(ended) >= seen
    monkeypatch.syspath_prepend(str(tmp_path))
    worker = importlib.import_module("killed_program").worker
    with pytest.raises(TapeEndedError), tracereel.replay(tape) as run:
        worker(10**9)
    sys.modules.pop("killed_program")

    assert run.report.served >= len(ended)
    assert run.report.divergences == []
    assert run.report.ended_early
