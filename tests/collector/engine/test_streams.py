"""A stream of the engine that fails at its very end is told; one that failed before keeps its reason."""

import pytest

from tracereel_collector.engine.execute import _rest
from tracereel_collector.engine.failures import QueryError


class Chunk:
    def bytes(self):
        return b"more"


class Stream:
    """As chDB gives one: blocks, then None; here it also fails where it is told to."""

    def __init__(self, *blocks, close_error=None):
        self._blocks = list(blocks)
        self._close_error = close_error
        self.closed = 0

    def fetch(self):
        block = self._blocks.pop(0) if self._blocks else None
        if isinstance(block, Exception):
            raise block
        return block

    def close(self):
        self.closed += 1
        if self._close_error is not None:
            raise self._close_error


def test_a_stream_is_read_to_its_end_and_closed():
    stream = Stream(Chunk())

    assert list(_rest(stream, b"first")) == [b"first", b"more"]
    assert stream.closed == 1


def test_a_failure_on_closing_is_told_as_any_other():
    with pytest.raises(QueryError, match="disk"):
        list(_rest(Stream(close_error=RuntimeError("Code: 243. DB::Exception: disk")), b"first"))


def test_the_failure_that_came_first_is_the_one_that_is_told():
    stream = Stream(
        RuntimeError("Code: 241. DB::Exception: memory"),
        close_error=RuntimeError("Code: 243. DB::Exception: disk"),
    )

    with pytest.raises(QueryError, match="memory"):
        list(_rest(stream, b"first"))
    assert stream.closed == 1


def test_a_reader_that_goes_away_closes_the_stream():
    stream = Stream(Chunk(), close_error=RuntimeError("Code: 243. DB::Exception: disk"))
    reading = _rest(stream, b"first")
    next(reading)

    reading.close()

    assert stream.closed == 1
