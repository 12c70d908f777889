"""Wake-ups between processes."""

import os
import threading

from tracereel_collector.runtime.wakeup_pipes import WakeupPipe, listen


def test_an_error_in_one_wakeup_does_not_end_the_listener():
    read_end, write_end = os.pipe()
    pipe, heard, second = WakeupPipe(write_end), [], threading.Event()

    def on_ring(data):
        heard.append(data)
        if len(heard) == 1:
            pipe.ring()
            raise OSError("database is locked")
        second.set()

    thread = listen(read_end, on_ring, name="test")
    pipe.ring()

    assert second.wait(20)
    pipe.close()
    thread.join(20)
    assert not thread.is_alive()
