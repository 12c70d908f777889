"""The examples against a real collector: their runs can be found and replayed."""

import os
import subprocess
import sys

from tests.support.waiting import wait_until
from tracereel.client import Client, NotFoundError


def show(collector, folder, *words):
    """Run an example; return its trace ids in order."""
    command = [sys.executable, "-m", "tracereel", "demo", "--interval", "0", *words]
    done = subprocess.run(
        [*command, "--endpoint", collector.url],
        env={**os.environ, "TRACEREEL_SPOOL_DIR": str(folder), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()[1:]
    return [line.split()[0] for line in lines if not line.startswith("  ")]


def test_a_thread_that_only_the_end_names_is_a_session_of_both_its_runs(collector, tmp_path):
    runs = show(collector, tmp_path, "--example", "questions", "--runs", "2")
    client = Client(collector.url)

    def conversation():
        try:
            thread = client.trace(runs[1]).session_id
            turns = client.session(thread).turns if thread else ()
        except NotFoundError:
            return None
        return turns if len(turns) == 2 else None

    turns = wait_until(conversation, message="both runs in one session")
    assert [turn.trace_id for turn in turns] == runs


def test_how_the_router_decided_is_replayed(collector, tmp_path):
    (run,) = show(collector, tmp_path, "--example", "orchestrator", "--runs", "1")

    def stored_timeline():
        answer = collector.replay(run)
        return answer.json()["timeline"] if b"agent.pipeline.completed" in answer.body else None

    timeline = wait_until(stored_timeline, message="the run is stored")
    (said,) = [each["details"] for each in timeline if each["event"] == "agent.decision.recorded"]
    assert (said["chosen"], said["output_data"]["rule"]) == ("orders_agent", "slash_command")
