import gc
import threading

import pytest

from tracereel_collector.runtime.collections import collections_paused


def test_cycles_are_not_collected_inside_and_are_again_afterwards():
    with collections_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_ends_the_pause():
    with pytest.raises(KeyError), collections_paused():
        raise KeyError
    assert gc.isenabled()


def test_the_pause_lasts_until_the_last_thread_has_left():
    inside, leave = threading.Event(), threading.Event()

    def other():
        with collections_paused():
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=other)
    with collections_paused():
        thread.start()
        assert inside.wait(30)
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()
