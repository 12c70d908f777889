"""Pause of all store writers: it is granted soon, excludes writers, and ends with its process."""

import subprocess
import sys
import threading

import pytest

from tests.support.waiting import wait_until
from tracereel_collector.errors import ServiceUnavailableError
from tracereel_collector.queue.pause import StoreWriters


def test_writers_that_come_and_go_all_the_time_do_not_keep_a_pause_waiting(tmp_path):
    inside, seen, stop = set(), [], threading.Event()

    def write(name):
        writers = StoreWriters(tmp_path)
        while not stop.is_set():
            with writers.writing(stop=stop) as may_write:
                if may_write:
                    inside.add(name)
                    # Longer than the gaps of the others: a writer is active at any moment.
                    stop.wait(0.01)
                    inside.discard(name)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(inside) > 1)
    for _ in range(5):
        with StoreWriters(tmp_path).paused(timeout=20):
            seen.append(set(inside))
    stop.set()
    for thread in threads:
        thread.join()

    assert seen == [set()] * 5


def test_several_may_write_at_once(tmp_path):
    with (
        StoreWriters(tmp_path).writing(timeout=1) as first,
        StoreWriters(tmp_path).writing(timeout=1) as second,
    ):
        assert (first, second) == (True, True)


def test_pause_timeout_is_an_error(tmp_path):
    with (
        StoreWriters(tmp_path).writing() as may_write,
        pytest.raises(ServiceUnavailableError, match=r"still being written to after 0\.05 s"),
        StoreWriters(tmp_path).paused(timeout=0.05),
    ):
        pytest.fail("nobody was kept out")
    assert may_write


def test_wait_for_the_end_of_a_pause_can_be_cancelled(tmp_path):
    stop = threading.Event()
    found = []

    def write():
        with StoreWriters(tmp_path).writing(stop=stop) as may_write:
            found.append(may_write)

    with StoreWriters(tmp_path).paused(timeout=1):
        thread = threading.Thread(target=write)
        thread.start()
        stop.set()
        thread.join()

    assert found == [False]


def test_writer_times_out_while_the_store_is_paused(tmp_path):
    with (
        StoreWriters(tmp_path).paused(timeout=1),
        StoreWriters(tmp_path).writing(timeout=0.05) as may_write,
    ):
        assert not may_write


def test_pause_ends_with_the_process_that_requested_it(tmp_path):
    script = (
        "import sys, pathlib, time; from tracereel_collector.queue.pause import StoreWriters\n"
        f"with StoreWriters(pathlib.Path({str(tmp_path)!r})).paused(timeout=5):\n"
        "    print('paused', flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    with holder.stdout:
        assert holder.stdout.readline() == "paused\n"
        with StoreWriters(tmp_path).writing(timeout=0) as may_write:
            assert not may_write
        holder.kill()
        holder.wait()

    with StoreWriters(tmp_path).writing(timeout=5) as may_write:
        assert may_write
