"""Processes of multiprocessing, pools and servers: each sends its own events once."""

import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import httpx
import pytest

from tests.sdk.conftest import SDK, Child, spool_files
from tests.sdk.safety.programs import assert_everything_once, end_of
from tests.support.ingest_sink import IngestSink
from tests.support.waiting import wait_until
from tracereel import config
from tracereel._export.leftovers import ship_leftovers

MODULE = """
    import multiprocessing, os, sys, warnings
    from concurrent.futures import ProcessPoolExecutor
    import tracereel

    # From Python 3.12 on: a fork while there are threads, ours among them.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)

    @tracereel.traced_agent("a")
    def agent(number):
        return number

    @tracereel.traced_agent("pid")
    def pid_of(number):
        return os.getpid()

    if __name__ == "__main__":
        method, traced_parent = "{method}", {parent}
        context = multiprocessing.get_context(method)
        if traced_parent:
            agent(0)
"""


@pytest.mark.parametrize(
    ("method", "parent"),
    [("fork", True), ("fork", False), ("spawn", True), ("forkserver", False)],
    ids=["fork", "fork, silent parent", "spawn", "forkserver, silent parent"],
)
def test_processes_of_multiprocessing_deliver_their_own(
    sink: IngestSink, child: Child, tmp_path: Path, method: str, parent: bool
) -> None:
    """Also if the parent records nothing and the children exit without handlers."""
    ended = end_of(
        child(
            MODULE.format(method=method, parent=parent)
            + """
        started = [context.Process(target=agent, args=(number,)) for number in range(2)]
        [process.start() for process in started]
        [process.join() for process in started]
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            pids = list(pool.map(pid_of, range(6)))
        print([process.exitcode for process in started], len(pids))
        """,
            TRACEREEL_ENDPOINT=sink.url,
            TRACEREEL_EXIT_TIMEOUT="30",
        )
    )
    assert (ended.code, ended.out, ended.err) == (0, "[0, 0] 6\n", "")
    workers = {e["emitter_id"] for e in sink.events if e.get("agent_name") == "pid"}
    assert len(workers) in (1, 2)
    assert_everything_once(sink, emitters=parent + 2 + len(workers), events=2 * (parent + 2 + 6))
    assert spool_files(tmp_path / "spool") == []


def test_workers_of_a_pool_that_are_ended_by_a_signal_lose_nothing(
    sink: IngestSink, child: Child
) -> None:
    """`with Pool()` ends its workers with SIGTERM; the parent's exit delivers their leftovers."""
    ended = end_of(
        child(
            MODULE.format(method="fork", parent=False)
            + """
        with context.Pool(2) as pool:
            print(sum(pool.map(agent, range(20))))
        """,
            TRACEREEL_ENDPOINT=sink.url,
            TRACEREEL_EXIT_TIMEOUT="30",
        )
    )
    assert (ended.code, ended.out, ended.err) == (0, "190\n", "")
    assert len(sink.events) == len({event["event_id"] for event in sink.events}) == 40


def test_a_child_that_ends_without_handlers_is_delivered_by_a_silent_parent(
    sink: IngestSink, child: Child
) -> None:
    ended = end_of(
        child(
            MODULE.format(method="fork", parent=False)
            + """
        child = os.fork()
        if child == 0:
            agent(1)
            os._exit(0)
        os.waitpid(child, 0)
        """,
            TRACEREEL_ENDPOINT=sink.url,
            TRACEREEL_EXIT_TIMEOUT="30",
        )
    )
    assert (ended.code, ended.err) == (0, "")
    assert_everything_once(sink, emitters=1, events=2)


def test_program_that_only_imports_tracereel_opens_no_connection(
    sink: IngestSink, child: Child
) -> None:
    """Leftovers of others are shipped only by a process that had children."""
    ended = end_of(
        child(
            "import os, tracereel\ntracereel.traced_agent('a')(len)('x'); os._exit(0)",
            TRACEREEL_ENDPOINT=sink.url,
        )
    )
    assert ended.code == 0
    before = sink.connections
    assert end_of(child("import tracereel", TRACEREEL_ENDPOINT=sink.url)).code == 0
    assert sink.connections == before


APP = """
    import os, threading
    import tracereel

    @tracereel.traced_agent("boot")
    def boot():
        return os.getpid()

    @tracereel.traced_agent("work")
    def work(environ):
        return str(os.getpid())

    boot()

    def app(environ, start_response):
        pid = work(environ).encode()
        start_response("200 OK", [("content-length", str(len(pid)))])
        return [pid]
"""


@pytest.mark.parametrize("preload", [True, False], ids=["preload", "no preload"])
def test_gunicorn_workers_send_their_own_events_once(
    sink: IngestSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preload: bool
) -> None:
    """With preload the application is loaded and traced in the master, whose thread stays there."""
    (tmp_path / "served.py").write_text(textwrap.dedent(APP))
    monkeypatch.setenv("TRACEREEL_ENDPOINT", sink.url)
    monkeypatch.setenv("TRACEREEL_EXIT_TIMEOUT", "20")
    monkeypatch.setenv("PYTHONPATH", str(SDK))
    log = tmp_path / "gunicorn.log"
    options = ["--workers", "2", "--bind", "127.0.0.1:0", "--no-control-socket"]
    options += ["--preload"] * preload
    with log.open("w") as output:
        master = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", *options, "served:app"],
            cwd=tmp_path,
            stdout=output,
            stderr=output,
        )
    try:
        url = wait_until(lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text()))[0]
        pids: list[str] = []

        def both_have_answered() -> bool:
            pids.append(httpx.get(url, headers={"connection": "close"}).text)
            return len(set(pids)) == 2

        wait_until(both_have_answered, message=log.read_text())
        master.send_signal(signal.SIGTERM)
        assert master.wait(60) == 0, log.read_text()
    finally:
        master.kill()
        master.wait()
    ship_leftovers(config.load(endpoint=sink.url))
    boots = 1 if preload else 2
    assert_everything_once(sink, emitters=3 if preload else 2, events=2 * (boots + len(pids)))
    homes = {
        name: {e["emitter_id"] for e in sink.events if e["agent_name"] == name}
        for name in ("boot", "work")
    }
    assert len(homes["work"]) == 2
    assert homes["boot"].isdisjoint(homes["work"]) if preload else homes["boot"] == homes["work"]
    assert "Traceback" not in log.read_text()
