"""The examples are replayed from their tapes: same result, no model or tool called, no setup."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tracereel
from tests.support.replay_trial import recording
from tracereel.cli import main
from tracereel.demo.examples import EXAMPLES
from tracereel.tape import Override, fork
from tracereel.tape import format as tape_format
from tracereel.tape.overrides import result_like

ROOT = Path(__file__).parents[2]
RUNS = 6


def no_nap(_seconds):
    """Make scripted models instantaneous."""


@pytest.fixture(scope="module")
def tapes():
    """Return the tapes of some runs of every example, by name."""
    found = {}
    for name, example in EXAMPLES.items():
        with recording() as events:
            reports = list(example.load()(runs=RUNS, interval=0, seed=3, sleep=no_nap))
        by_trace = {}
        for event in events:
            if event["event_type"] == "agent.tape.recorded":
                by_trace.setdefault(event["trace_id"], []).append(event)
        found[name] = [tape_format.parse(by_trace[report.trace_id]) for report in reports]
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_run_of_an_example_can_be_run_again(name, tapes):
    """Includes failing models, reached limits and readers that stop early."""
    for tape in tapes[name]:
        assert (tape.state, tape.reasons) == ("yes", ())
        with tracereel.replay(tape) as run:
            try:
                run.call()
            except (TimeoutError, ValueError):
                assert tape.closed["how"] == "raised"
        assert run.report.identical, str(run.report)
        assert run.report.served == len(tape.boundaries()) > 0


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_test_is_made_of_a_run_and_passes_offline(name, tapes, tmp_path, capsys):
    tapes[name][0].save(tmp_path / "run.tape.ndjson")
    made = main(
        ["test-from", str(tmp_path / "run.tape.ndjson"), "--directory", str(tmp_path / "tests")]
    )
    assert made == 0, capsys.readouterr().err

    clean = {key: value for key, value in os.environ.items() if not key.startswith("TRACEREEL")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=tmp_path,
        env={**clean, "PYTHONPATH": str(ROOT / "sdk"), "TRACEREEL_ENDPOINT": "http://192.0.2.1:9"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_fork_with_refusing_rules(tapes):
    tape = tapes["appointment"][0]

    with fork(tape, overrides=[Override("rule_check", chosen="refuse")]) as run:
        booking = run.call()

    assert booking.outcome == "outside_opening_hours"
    assert (run.report.served, run.report.live, run.report.divergences) == (3, 0, [])


def test_fork_with_a_taken_slot(tapes):
    """Overrides single fields of a response object."""
    tape = tapes["appointment"][0]
    answer = result_like(tape, 5, {"content": {"slot": None}})

    assert len(answer.content["offered"]) == 3
    with fork(tape, overrides=[Override(5, result=answer)]) as run:
        assert run.call().outcome == "conflict_detected"
    assert run.tape.closed["how"] == "returned"


@pytest.mark.parametrize(
    ("name", "at"), [("appointment", 3), ("orchestrator", 2), ("questions", 2)]
)
def test_an_example_is_forked_at_a_step(name, at, tapes):
    """Its model is available again without setup."""
    tape = tapes[name][0]
    with fork(tape, at=at) as run:
        run.call()

    assert (run.report.served, run.report.live) == (at - 1, len(tape.boundaries()) - at + 1)
