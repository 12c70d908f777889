"""Errors of engine streams: errors at close are raised, earlier errors keep their reason."""

import pytest

from tracereel_collector.engine.execute import _rest
from tracereel_collector.engine.failures import QueryError


class Chunk:
    def bytes(self):
        return b"more"


class Stream:
    """Fake chDB stream: blocks, then None, with optional errors."""

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


def test_error_on_stream_close_is_raised():
    with pytest.raises(QueryError, match="disk"):
        list(_rest(Stream(close_error=RuntimeError("Code: 243. DB::Exception: disk")), b"first"))


def test_first_stream_error_wins_over_close_error():
    stream = Stream(
        RuntimeError("Code: 241. DB::Exception: memory"),
        close_error=RuntimeError("Code: 243. DB::Exception: disk"),
    )

    with pytest.raises(QueryError, match="memory"):
        list(_rest(stream, b"first"))
    assert stream.closed == 1


def test_abandoned_reader_closes_the_stream():
    stream = Stream(Chunk(), close_error=RuntimeError("Code: 243. DB::Exception: disk"))
    reading = _rest(stream, b"first")
    next(reading)

    reading.close()

    assert stream.closed == 1
