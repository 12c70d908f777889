"""Messages between the processes of a fleet replay."""

import fcntl
import os
import resource
from collections.abc import Iterator

import pytest

from tracereel.fleet import frames


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Return a pipe whose reading end has a number that select() refuses."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2_000), limits[1]))
    low, writing = os.pipe()
    reading = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 1_500)
    os.close(low)
    yield reading, writing
    os.close(reading)
    os.close(writing)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_message_arrives_in_a_process_with_many_open_files(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    frames.send(writing, b"hello")

    assert frames.receive(reading, seconds=10) == b"hello"


def test_silence_ends_at_the_deadline(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.write(writing, b"\0")

    with pytest.raises(frames.SilentError):
        frames.receive(reading, seconds=0.01)
