"""CLI commands against a real collector."""

import json
import os
import re
import subprocess
import sys

from tests.support.contract import EXAMPLES
from tests.support.waiting import wait_until


def tracereel(*words, environ=None):
    return subprocess.run(
        [sys.executable, "-m", "tracereel", *words],
        env={**os.environ, "COLUMNS": "200", **(environ or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_replay_command_prints_text_or_json(collector, trace_id):
    events = [
        {**each, "event_id": f"{trace_id}-{n}", "trace_id": trace_id}
        for n, each in enumerate(EXAMPLES)
    ]
    assert collector.post_events(events).status == 200

    told = tracereel("replay", trace_id, "--endpoint", collector.url)
    given = tracereel("replay", trace_id, "--endpoint", collector.url, "--json")

    assert told.returncode == 0, told.stderr
    assert "parsing_agent" in told.stdout
    assert "LLM request timeout after 30s" in told.stdout
    assert "\x1b" not in told.stdout
    assert json.loads(given.stdout) == collector.replay(trace_id).json()


def test_replay_of_an_unknown_trace_is_one_line(collector):
    done = tracereel("replay", "nothing-here", "--endpoint", collector.url)

    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert "nothing-here" in done.stderr


def test_doctor_finds_a_healthy_set_up_usable(collector, tmp_path):
    done = tracereel(
        *("doctor", "--endpoint", collector.url, "--json"),
        environ={"TRACEREEL_SPOOL_DIR": str(tmp_path)},
    )

    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)


def test_doctor_gives_advice_when_the_collector_is_unreachable(tmp_path):
    done = tracereel(
        *("doctor", "--endpoint", "http://127.0.0.1:9"),
        environ={"TRACEREEL_SPOOL_DIR": str(tmp_path)},
    )

    assert done.returncode == 1
    assert "tracereel serve" in done.stdout


def test_demo_runs_can_be_replayed(collector, tmp_path):
    done = tracereel(
        *("demo", "--runs", "2", "--interval", "0", "--seed", "1", "--endpoint", collector.url),
        environ={"TRACEREEL_SPOOL_DIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    trace_id = re.search(r"(?m)^[0-9a-f]{32}", done.stdout).group()
    wait_until(lambda: collector.metric("tracereel_records_pending", kind="events") == 0)

    told = tracereel("replay", trace_id, "--endpoint", collector.url)

    assert told.returncode == 0, told.stderr
    for agent in ("parsing_agent", "temporal_agent", "geo_agent"):
        assert agent in told.stdout
