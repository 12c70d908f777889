"""Order in which the kernel kills processes when memory runs out, with real processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.small_machine import memory_group
from tests.support.waiting import wait_until
from tracereel_collector.engine import EngineSettings, Supervisor
from tracereel_collector.engine.memory import machine_memory, usable_memory
from tracereel_collector.engine.oom import RESERVE_BYTES, MemoryReserve

PARENT = """
import sys
from tracereel_collector.engine.oom import MemoryReserve
reserve = MemoryReserve()
reserve.keep()
print(reserve.pid, flush=True)
sys.stdin.read()
"""
STORE_IN_A_CGROUP = """
import sys
from pathlib import Path
from tracereel_collector.engine import EngineSettings, Supervisor
settings = EngineSettings(store_dir=Path(sys.argv[1]), max_server_memory=int(sys.argv[2]))
with Supervisor(settings, on_event=lambda name, fields: print(name, *fields.values(), flush=True)):
    sys.stdin.read()
"""
GIB = 1024**3


def score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def reserve() -> Iterator[MemoryReserve]:
    kept = MemoryReserve()
    yield kept
    kept.give_up()


def test_kernel_kills_the_engine_before_its_supervisor(settings: EngineSettings) -> None:
    own = score(os.getpid())
    with Supervisor(settings) as supervisor:
        assert supervisor.pid is not None
        assert score(supervisor.pid) == 1000
        assert score(os.getpid()) == own


def test_memory_reserve_is_real_and_killed_first(reserve: MemoryReserve) -> None:
    assert reserve.pid is None
    assert not reserve.keep()
    pid = reserve.pid
    assert pid is not None
    wait_until(lambda: psutil.Process(pid).memory_info().rss > RESERVE_BYTES)
    assert score(pid) == 1000
    assert not reserve.keep()
    assert reserve.pid == pid
    reserve.give_up()
    reserve.give_up()
    assert reserve.pid is None
    assert is_gone(pid)


@pytest.mark.fault
def test_reserve_that_was_taken_is_replaced_and_reported(reserve: MemoryReserve) -> None:
    reserve.keep()
    first = reserve.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: reserve.pid is None)
    assert reserve.keep()
    assert reserve.pid not in {None, first}
    assert not reserve.keep()


@pytest.mark.fault
def test_reserve_ends_with_its_parent() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not is_gone(pid)
        parent.kill()
    wait_until(lambda: is_gone(pid))


def test_reserve_is_held_in_a_cgroup_and_memory_above_its_limit_is_reported(
    tmp_path: Path,
) -> None:
    with (
        memory_group(GIB) as group,
        subprocess.Popen(
            [
                *(*group.command, sys.executable, "-c", STORE_IN_A_CGROUP),
                *(str(tmp_path), str(8 * GIB)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as parent,
    ):
        assert parent.stdin is not None
        assert parent.stdout is not None
        assert parent.stdout.readline().startswith("engine.ready")
        assert parent.stdout.readline().startswith(f"engine.memory_above_limit {8 * GIB} {GIB} ")
        wait_until(lambda: len(psutil.Process(parent.pid).children()) == 2)
        children = psutil.Process(parent.pid).children()
        wait_until(lambda: {score(child.pid) for child in children} == {1000})
        parent.stdin.close()
        assert parent.wait(60) == 0
        assert all(is_gone(child.pid) for child in children)


@pytest.mark.skipif(usable_memory() < machine_memory(), reason="this runs in a cgroup with a limit")
def test_no_reserve_is_held_without_a_limit(settings: EngineSettings) -> None:
    before = {child.pid for child in psutil.Process().children()}
    with Supervisor(settings) as supervisor:
        new = {child.pid for child in psutil.Process().children()} - before
        assert new == {supervisor.pid}
