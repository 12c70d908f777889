"""`tracereel ship` as a process: leftover events of ended processes reach the collector."""

import json
from pathlib import Path

import pytest

from tests.sdk.cli.answering_server import AnsweringServer
from tracereel._export.spool import EmitterLock, Spool, segment_path
from tracereel.config import load


def spool_of(cli_env: dict[str, str], url: str) -> Path:
    return load({}, endpoint=url, spool_dir=cli_env["TRACEREEL_SPOOL_DIR"]).destination_dir


def leave_events(directory: Path, number: int) -> None:
    """Write events to a spool as the SDK does, like a process that has ended."""
    spool = Spool(directory, max_bytes=10_000_000)
    for index in range(number):
        event = {"event_id": f"evt_{index}", "event_type": "custom.left", "trace_id": "trc_left"}
        assert spool.append(event, None, closes_run=False) is None
    spool.close(settled=-1)


def test_delivers_what_an_ended_process_left_and_clears_it(run_cli, cli_env, collector):
    """Every event arrives in order and nothing stays in the spool."""
    directory = spool_of(cli_env, collector.url)
    leave_events(directory, 2500)

    done = run_cli("ship", "--endpoint", collector.url)

    assert (done.returncode, done.stdout) == (0, "delivered 2500, spooled 0, dropped 0\n")
    assert [f"evt_{index}" for index in range(2500)] == [
        event["event_id"] for event in collector.events
    ]
    assert list(directory.iterdir()) == []


def test_an_empty_spool_is_all_delivered(run_cli, collector):
    """An empty spool is a success."""
    done = run_cli("ship", "--endpoint", collector.url)

    assert (done.returncode, done.stdout) == (0, "delivered 0, spooled 0, dropped 0\n")


def test_events_of_another_key_are_pointed_out(run_cli, cli_env, collector):
    settings = load(
        {},
        endpoint=collector.url,
        api_key="another-key-of-sixteen",
        spool_dir=cli_env["TRACEREEL_SPOOL_DIR"],
    )
    leave_events(settings.destination_dir, 3)

    done = run_cli("ship", "--endpoint", collector.url)

    assert (done.returncode, done.stdout) == (0, "delivered 0, spooled 0, dropped 0\n")
    assert "3 events wait for another key or endpoint; tracereel doctor says" in done.stderr


def test_without_a_collector_everything_stays_and_the_status_is_1(run_cli, cli_env):
    """The events are kept, and the last line says how to start a collector."""
    with AnsweringServer() as gone:
        url = gone.url
    directory = spool_of(cli_env, url)
    leave_events(directory, 3)

    done = run_cli("ship", "--endpoint", url, "--timeout", "0.3")

    assert (done.returncode, done.stdout) == (1, "delivered 0, spooled 3, dropped 0\n")
    assert "tracereel serve" in done.stderr
    assert sum(len(p.read_bytes().splitlines()) for p in directory.glob("*.ndjson")) == 3


def test_the_spool_of_a_living_process_is_left_alone(run_cli, cli_env, collector):
    """A spool in use is shipped only by its own process."""
    directory = spool_of(cli_env, collector.url)
    directory.mkdir(parents=True)
    lock = EmitterLock.take(directory / "emt_alive.lock", create=True)
    assert lock is not None
    segment_path(directory, "emt_alive", 1).write_bytes(json.dumps({"a": 1}).encode() + b"\n")

    done = run_cli("ship", "--endpoint", collector.url)
    lock.release(remove=False)

    assert (done.returncode, done.stdout) == (0, "delivered 0, spooled 0, dropped 0\n")
    assert collector.events == []


def test_another_spool_directory_can_be_named(run_cli, collector, tmp_path):
    """--spool-dir overrides TRACEREEL_SPOOL_DIR."""
    other = tmp_path / "other"
    leave_events(load({}, endpoint=collector.url, spool_dir=str(other)).destination_dir, 1)

    done = run_cli("ship", "--endpoint", collector.url, "--spool-dir", str(other))

    assert done.stdout == "delivered 1, spooled 0, dropped 0\n"


@pytest.mark.parametrize("timeout", ["-1", "nan", "soon"])
def test_a_timeout_that_is_no_duration_is_refused(run_cli, timeout):
    """The message names the given and the accepted values."""
    done = run_cli("ship", "--timeout", timeout)

    assert done.returncode == 2
    assert f"{timeout!r} is not a number of seconds, 0 or more" in done.stderr


def test_a_collector_that_does_not_take_events_is_quoted(run_cli, cli_env, collector):
    """A collector that responds is not called away."""
    leave_events(spool_of(cli_env, collector.url), 3)
    collector.accept_events = False

    done = run_cli("ship", "--endpoint", collector.url, "--timeout", "0.3")

    assert done.returncode == 1
    assert "HTTP 503: not now" in done.stderr
    assert "tracereel serve" not in done.stderr
