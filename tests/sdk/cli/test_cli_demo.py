"""`tracereel demo` as a process: output, delivery and exit."""

import signal
import subprocess
import sys
import urllib.request

import pytest

from tests.sdk.cli.answering_server import AnsweringServer
from tests.support.waiting import wait_until


def test_prints_each_run_and_how_to_replay_the_first(run_cli, collector):
    """One line per run; all events have arrived when it ends."""
    done = run_cli(
        "demo", "--runs", "2", "--interval", "0", "--seed", "1", "--endpoint", collector.url
    )

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    trace_id = lines[1].split()[0]
    assert lines[0] == f"recording to {collector.url}"
    assert "appointment_created" in lines[1]
    assert lines[2].startswith("  try: ")
    assert lines[2].endswith(f"tracereel replay {trace_id} --endpoint {collector.url}")
    assert lines[3] == f"  or open: {collector.url}/#{trace_id}"
    assert lines[4].startswith("  or run it again, without the model: ")
    assert lines[4].endswith(f"tracereel replay {trace_id} --run --endpoint {collector.url}")
    assert len(lines) == 6
    endings = [e for e in collector.events if e["event_type"] == "agent.pipeline.completed"]
    assert [line.split()[0] for line in (lines[1], lines[5])] == [e["trace_id"] for e in endings]
    assert {event["service"] for event in collector.events} == {"tracereel-demo"}


def test_logs_shows_the_lines_of_the_sdk(run_cli, collector):
    """Logs go to stderr, so that the demo's own output stays clean."""
    done = run_cli("demo", "--runs", "1", "--logs", "--endpoint", collector.url)

    assert '"event":"agent_execution_completed"' in done.stderr
    assert "agent_execution_completed" not in done.stdout


def test_without_a_collector_the_events_are_kept_and_the_way_on_is_named(run_cli):
    """The demo does not fail: an agent is not affected by an unreachable collector."""
    with AnsweringServer() as gone:
        url = gone.url

    done = run_cli("demo", "--runs", "1", "--endpoint", url, TRACEREEL_RECORD="off")

    assert done.returncode == 0
    assert "28 events wait in the spool" in done.stderr
    assert "tracereel ship" in done.stderr


def test_demo_runs_with_recording_off_and_reports_it(run_cli, collector):
    """With recording off, the pipeline runs and there is nothing to replay."""
    done = run_cli("demo", "--runs", "1", "--endpoint", collector.url, TRACEREEL_ENABLED="0")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("recording is off\n-  appointment_created")
    assert "replay" not in done.stdout


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("length", "status"), [(["--forever"], 0), (["--runs", "9"], None)])
def test_a_signal_ends_it_at_once_and_cleanly(cli_env, collector, stop, length, status):
    """No traceback and no loss; an endless demo exits with 0, another with 128 + signal."""
    words = ["demo", *length, "--interval", "3600", "--endpoint", collector.url]
    with subprocess.Popen(
        [sys.executable, "-m", "tracereel", *words],
        env=cli_env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        try:
            wait_until(lambda: "run it again" in process.stdout.readline())  # its last line
            process.send_signal(stop)
            rest, complaint = process.communicate(timeout=30)
        finally:
            process.kill()

    # Another program of this machine may listen on the port of the metrics.
    lines = [line for line in complaint.splitlines() if "port 9090 is taken" not in line]
    assert (process.returncode, rest, lines) == (128 + stop if status is None else status, "", [])
    assert collector.events[-1]["event_type"] == "agent.pipeline.completed"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--runs", "0"], "'0' is not a whole number, 1 or more"),
        (["--interval", "-1"], "'-1' is not a number of seconds, 0 or more"),
        (["--runs", "2", "--forever"], "not allowed with"),
        (["--endpoint", "nowhere"], "endpoint is 'nowhere'; expected a URL such as"),
    ],
)
def test_invalid_demo_arguments_are_refused(run_cli, words, expected):
    """The message names the given and the accepted values."""
    done = run_cli("demo", *words)

    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("options", [["--metrics", "0"], []], ids=["given", "default"])
def test_endless_demo_serves_metrics_at_the_address_it_prints(cli_env, collector, options):
    """Prometheus can scrape it while the demo runs; a taken default port is no obstacle."""
    words = ["demo", "--forever", "--interval", "0", *options, "--endpoint", collector.url]
    with subprocess.Popen(
        [sys.executable, "-m", "tracereel", *words],
        env=cli_env,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        try:
            lines = iter(process.stdout.readline, "")
            url = next(line for line in lines if line.startswith("metrics at")).split()[-1]

            def page():
                with urllib.request.urlopen(url, timeout=10) as answer:
                    return answer.read().decode()

            wait_until(lambda: 'agent_executions_total{agent_name="parsing_agent"' in page())
        finally:
            process.terminate()


@pytest.mark.parametrize("text", ["here", "host:", "70000", "a:-1"])
def test_invalid_metrics_address_is_refused(run_cli, text):
    done = run_cli("demo", "--metrics", text)

    assert done.returncode == 2
    assert "expected [HOST:]PORT" in done.stderr
