"""Third-party retry loops around an agent, from the program to the collector's responses."""

import os
import re
import subprocess
import sys

import pytest

from tests.support.collector import http
from tests.support.waiting import wait_until

PROGRAM = """
import os, signal, sys
import stamina, tenacity, tracereel
from tracereel.resilience import fixed_delay, instrument_stamina, retry
from tracereel.resilience.tenacity import before_sleep

instrument_stamina()
stamina.instrumentation.set_on_retry_hooks(stamina.instrumentation.get_on_retry_hooks()[-1:])
loops = {
    "retry": retry(3, strategy=fixed_delay(0.001)),
    "tenacity": tenacity.retry(wait=tenacity.wait_fixed(0.001), before_sleep=before_sleep()),
    "stamina": stamina.retry(on=OSError, wait_initial=0.001, wait_max=0.001, wait_jitter=0),
}
outcomes = [OSError("no route"), OSError("still none"), "done"]

@loops[sys.argv[1]]
@tracereel.traced_agent("parsing_agent")
def parse():
    print(tracereel.current_execution().trace_id, flush=True)
    outcome = outcomes.pop(0)
    if isinstance(outcome, str) and sys.argv[2] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome

assert parse() == "done"
"""


def run(loop, how, tmp_path, url):
    """Return the trace ids of the attempts."""
    environ = {**os.environ, "TRACEREEL_ENDPOINT": url, "TRACEREEL_SPOOL_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, loop, how],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"(?m)^[0-9a-f]{32}$", done.stdout)
    assert len(found) == 3, done.stderr
    return found


def replayed(collector, trace_id, events):
    def there():
        answer = collector.replay(trace_id)
        found = answer.json() if answer.status == 200 else {"timeline": []}
        return found if len(found["timeline"]) >= events else None

    return wait_until(there)


def listed(collector, trace_id):
    """Return a run as listed, once the list contains it."""
    rows = http("GET", f"{collector.url}/v1/traces?agent=parsing_agent").json()["traces"]
    return next((row for row in rows if row["trace_id"] == trace_id), None)


@pytest.mark.parametrize("loop", ["retry", "tenacity", "stamina"])
def test_a_retried_agent_is_one_run_that_succeeded_and_all_of_it_is_there(
    collector, tmp_path, loop
):
    trace_id, *others = run(loop, "lives", tmp_path, collector.url)
    assert others == [trace_id, trace_id]
    attempts = [
        *("agent.execution.started", "agent.execution.failed", "agent.retry.attempted"),
        *("agent.execution.started", "agent.execution.failed", "agent.retry.attempted"),
        *("agent.execution.started", "agent.execution.completed"),
    ]
    told = [*attempts, *(["agent.step.completed"] if loop == "retry" else [])]
    replay = replayed(collector, trace_id, len(told))
    assert [entry["event"] for entry in replay["timeline"]] == told
    assert len({entry["step"]["chain"] for entry in replay["timeline"]}) == 1

    summary = replay["summary"]
    assert (summary["state"], summary["retries"], summary["errors"]) == ("success", 2, 2)
    assert summary["completeness"]["verdict"] == "complete"
    assert summary["fatal_error"] is None
    assert summary["first_error"]["handled"] is True
    (chain,) = replay["chains"]
    assert (chain["outcome"], chain["attempts"]) == ("success", 3)
    assert [link["status"] for link in chain["links"]] == ["failed", "failed", "success"]
    assert chain["links"][0]["error"] == "OSError: no route"

    where = f"{collector.url}/v1/traces/{trace_id}"
    ledger = http("GET", f"{where}/completeness").json()
    assert (ledger["verdict"], ledger["missing"], ledger["duplicates"]) == ("complete", 0, 0)
    (emitter,) = ledger["emitters"]
    assert (emitter["seen"], emitter["expected"]) == (len(told), len(told))
    assert emitter["has_told_its_end"] is True
    row = wait_until(lambda: listed(collector, trace_id))
    assert (row["status"], row["retries"]) == ("success", 2)


@pytest.mark.parametrize("loop", ["retry", "tenacity", "stamina"])
def test_run_is_incomplete_if_the_process_dies_in_a_later_attempt(collector, tmp_path, loop):
    trace_id, *_ = run(loop, "dies", tmp_path, collector.url)
    subprocess.run(
        [
            *(sys.executable, "-m", "tracereel", "ship", "--endpoint", collector.url),
            *("--spool-dir", str(tmp_path), "--timeout", "20"),
        ],
        capture_output=True,
        check=True,
    )
    replay = replayed(collector, trace_id, 7)
    assert replay["summary"]["state"] not in ("success", "failed")
    assert replay["summary"]["completeness"]["verdict"] == "open"
    ledger = http("GET", f"{collector.url}/v1/traces/{trace_id}/completeness").json()
    assert (ledger["verdict"], ledger["missing"]) == ("open", 0)
    assert [each["has_told_its_end"] for each in ledger["emitters"]] == [False]
