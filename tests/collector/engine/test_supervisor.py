"""Engine lifecycle: start, crash, hang and stop, with real processes and signals."""

import dataclasses
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.collector.engine.conftest import connect_to
from tests.support.waiting import wait_until
from tracereel_collector.engine import EngineSettings, EngineStartError, Supervisor

PARENT = """
import sys
from pathlib import Path
from tracereel_collector.engine import EngineSettings, Supervisor
supervisor = Supervisor(EngineSettings(store_dir=Path(sys.argv[1])))
supervisor.start()
assert "chdb" not in sys.modules
print(supervisor.pid, supervisor.port, flush=True)
sys.stdin.read()
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def can_bind(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def test_the_supervisor_never_imports_chdb() -> None:
    code = "import sys, tracereel_collector.engine; sys.exit('chdb' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_engine_starts_with_more_than_1024_open_files(
    settings: EngineSettings,
) -> None:
    """A collector with many connections must be able to restart its engine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2_000:
        pytest.skip(f"the system allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2_000), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        with Supervisor(settings) as supervisor:
            assert supervisor.state == "running"
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_stop_is_safe_without_start_and_twice(settings: EngineSettings) -> None:
    supervisor = Supervisor(settings)
    supervisor.stop()
    assert supervisor.state == "new"
    supervisor.start()
    pid, port = supervisor.pid, supervisor.port
    assert pid is not None
    assert (supervisor.state, (settings.store_dir / "engine.secret").stat().st_mode & 0o777) == (
        "running",
        0o600,
    )
    assert f"pid {pid}, started " in (settings.store_dir / "engine.lock").read_text()
    supervisor.stop()
    supervisor.stop()
    assert (supervisor.state, supervisor.pid, alive(pid)) == ("stopped", None, False)
    assert can_bind(port)
    secret = supervisor.secret
    supervisor.start()
    try:
        assert (supervisor.port, supervisor.secret) == (port, secret)
        assert connect_to(supervisor).command("SELECT 1") == 1
    finally:
        supervisor.stop()


@pytest.mark.fault
def test_killed_engine_restarts_with_its_port_and_data(settings: EngineSettings) -> None:
    events: list[str] = []
    with Supervisor(settings, on_event=lambda event, _: events.append(event)) as supervisor:
        client = connect_to(supervisor)
        client.command("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
        client.command("INSERT INTO t SELECT number FROM numbers(1000)")
        port, first = supervisor.port, supervisor.pid
        assert first is not None
        stop, answers = threading.Event(), [0]

        def ask() -> None:
            own = connect_to(supervisor)
            while not stop.is_set():
                try:
                    assert own.command("SELECT count() FROM t") == 1000
                    answers[0] += 1
                except AssertionError:
                    raise
                except Exception:  # requests on the killed engine fail, as intended
                    continue

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: answers[0] > 20)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: supervisor.pid not in {None, first} and supervisor.state == "running")
        before = answers[0]
        wait_until(lambda: answers[0] > before + 20)
        stop.set()
        for thread in threads:
            thread.join()
        assert (supervisor.port, supervisor.restarts) == (port, 1)
        assert connect_to(supervisor).command("SELECT count() FROM t") == 1000
        assert "exited with -9" in str(supervisor.last_error)
        assert [e for e in events if e != "engine.output"] == [
            "engine.ready",
            "engine.died",
            "engine.ready",
        ]


@pytest.mark.fault
def test_a_connection_made_while_the_engine_restarts_waits_and_is_answered(
    settings: EngineSettings,
) -> None:
    with Supervisor(settings) as supervisor:
        assert supervisor.pid is not None
        os.kill(supervisor.pid, signal.SIGKILL)
        wait_until(lambda: supervisor.state == "restarting")
        assert connect_to(supervisor).command("SELECT 1") == 1


@pytest.mark.fault
def test_a_hung_engine_is_killed_and_replaced(settings: EngineSettings) -> None:
    impatient = dataclasses.replace(
        settings, ping_interval_seconds=0.2, ping_timeout_seconds=0.3, ping_failures=3
    )
    with Supervisor(impatient) as supervisor:
        first = supervisor.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        wait_until(lambda: supervisor.state == "running" and supervisor.pid not in {None, first})
        assert "health checks" in str(supervisor.last_error)
        assert not alive(first)
        assert connect_to(supervisor).command("SELECT 1") == 1


@pytest.mark.fault
def test_an_engine_whose_parent_is_killed_ends_and_frees_lock_and_port(tmp_path: Path) -> None:
    store = tmp_path / "store"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert parent.stdout is not None
        pid, port = map(int, parent.stdout.readline().split())
        assert alive(pid)
        parent.kill()
        parent.wait()
        wait_until(lambda: not alive(pid), message="the engine outlived its parent")
        wait_until(lambda: can_bind(port))
    finally:
        parent.kill()
        parent.wait()
        for pipe in (parent.stdin, parent.stdout):
            if pipe is not None:
                pipe.close()
    with Supervisor(EngineSettings(store_dir=store, lock_wait_seconds=0)) as successor:
        assert connect_to(successor).command("SELECT 1") == 1


def test_a_second_engine_names_the_first_in_one_line(settings: EngineSettings) -> None:
    with Supervisor(settings) as first:
        second = Supervisor(settings)
        with pytest.raises(EngineStartError) as failed:
            second.start()
        message = str(failed.value)
        assert f"pid {first.pid}, started 20" in message
        assert "\n" not in message
        assert (second.state, second.last_error, second.pid) == ("failed", message, None)
        second.stop()
        assert connect_to(first).command("SELECT 1") == 1


def test_the_child_exits_2_when_the_store_is_held(settings: EngineSettings) -> None:
    with Supervisor(settings) as first, socket.create_server(("127.0.0.1", 0)) as listener:
        command = [
            sys.executable,
            "-m",
            "tracereel_collector.engine",
            "--listen-fd",
            str(listener.fileno()),
        ]
        command += ["--parent", str(os.getpid()), "--settings", settings.to_json()]
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[listener.fileno()],
        )
        assert child.stdin is not None
        assert child.stderr is not None
        assert child.stdout is not None
        child.wait(timeout=30)
        said = child.stderr.read().decode()
        assert (child.returncode, child.stdout.read()) == (2, b"")
        assert said.count("\n") == 1
        assert f"pid {first.pid}" in said
        for pipe in (child.stdin, child.stdout, child.stderr):
            pipe.close()


@pytest.mark.parametrize("name", ["a?b", "a&b"])
def test_a_path_that_chdb_would_misread_is_a_start_error(tmp_path: Path, name: str) -> None:
    supervisor = Supervisor(EngineSettings(store_dir=tmp_path / name))
    with pytest.raises(EngineStartError, match="contains"):
        supervisor.start()
    assert list(tmp_path.iterdir()) == []


def test_a_path_with_spaces_quotes_and_umlauts_is_fine(tmp_path: Path) -> None:
    with Supervisor(EngineSettings(store_dir=tmp_path / "ein 'süßer' % + # name")) as supervisor:
        assert connect_to(supervisor).command("SELECT 1") == 1
        assert (supervisor.settings.store_dir / "clickhouse").is_dir()


def test_a_failing_listener_does_not_leave_the_engine_unwatched(settings: EngineSettings) -> None:
    def broken(event: str, fields: object) -> None:
        raise RuntimeError("no log today")

    with Supervisor(settings, on_event=broken) as supervisor:
        first = supervisor.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: supervisor.state == "running" and supervisor.pid not in {None, first})
        assert connect_to(supervisor).command("SELECT 1") == 1


def test_stop_during_a_restart_leaves_no_process(settings: EngineSettings) -> None:
    supervisor = Supervisor(settings)
    supervisor.start()
    assert supervisor.pid is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    wait_until(lambda: supervisor.state == "restarting" and supervisor.restarts == 1)
    started = time.monotonic()
    supervisor.stop()
    assert time.monotonic() - started < 5
    assert (supervisor.pid, supervisor.state) == (None, "stopped")
    assert can_bind(supervisor.port)


def test_a_taken_port_is_a_start_error(settings: EngineSettings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        supervisor = Supervisor(dataclasses.replace(settings, port=port))
        with pytest.raises(EngineStartError, match=f"127.0.0.1:{port} cannot be bound"):
            supervisor.start()
        supervisor.stop()


def test_sigterm_lets_running_requests_finish_and_sigint_is_ignored(
    settings: EngineSettings,
) -> None:
    supervisor = Supervisor(settings)
    supervisor.start()
    answers: list[Any] = []
    client = connect_to(supervisor)
    thread = threading.Thread(target=lambda: answers.append(client.command("SELECT sleep(1.5)")))
    thread.start()
    assert supervisor.pid is not None
    os.kill(supervisor.pid, signal.SIGINT)
    other = connect_to(supervisor)
    wait_until(lambda: other.command("SELECT count() FROM system.processes") >= 2)
    started = time.monotonic()
    supervisor.stop()
    thread.join()
    assert answers == [0]
    assert time.monotonic() - started < 5


def test_stop_is_bounded_when_a_request_does_not_end(settings: EngineSettings) -> None:
    supervisor = Supervisor(dataclasses.replace(settings, stop_seconds=0.3))
    supervisor.start()
    client, other = connect_to(supervisor, query_retries=0), connect_to(supervisor)

    def endless() -> None:
        with pytest.raises(Exception, match=r".+"):
            client.query("SELECT count() FROM system.numbers", settings={"max_execution_time": 20})

    thread = threading.Thread(target=endless)
    thread.start()
    wait_until(lambda: other.command("SELECT count() FROM system.processes") >= 2)
    started = time.monotonic()
    supervisor.stop()
    assert time.monotonic() - started < 10  # and not the twenty seconds of the request
    thread.join()
