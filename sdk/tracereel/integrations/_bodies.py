"""The body of an HTTP answer, watched while the client reads it: event streams, or JSON read late.

The client's own response object stays in place; its `iter_bytes` and `close` pass by here. So every
way of reading it (objects, lines, helpers) is seen, and what the client makes of it is not touched.
"""

import functools
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Final

import msgspec

from tracereel import _guard
from tracereel._wrapping import first_step
from tracereel.integrations._model_call import ModelCall
from tracereel.providers.streams.base import StreamAdapter
from tracereel.providers.streams.sse import SseDecoder

MAX_WAITING: Final = 64
"""Pieces of a stream that wait to be looked at: together is cheaper, and memory is bounded."""
MAX_JSON_BYTES: Final = 32 * 2**20
_BODY: Final = "_tracereel_body"
_EVENT_STREAM: Final = "text/event-stream"

Adapt = Callable[[Callable[[], float]], StreamAdapter]
"""Makes the adapter of a stream, given the clock that it is to use."""


def watch(response: Any, call: ModelCall, adapt: Adapt) -> None:
    """Follow the reading of a response to the end of its call."""
    kind = str(response.headers.get("content-type") or "")
    body: Body = StreamBody(call, adapt) if kind.startswith(_EVENT_STREAM) else JsonBody(call)
    vars(response)[_BODY] = body
    # By its class: methods of its own would refer to it, and a response that refers to itself is
    # closed late when it is dropped unread.
    own = type(response)
    found = _kinds.get(own)
    if found is None:
        found = _kinds[own] = _watched(own)
    response.__class__ = found


_kinds: Final[dict[type, type]] = {}


def _watched(kind: type) -> type:
    """A class of responses whose reading is followed; by name and in all else the same."""
    plain: Any = kind
    methods: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}

    def iter_bytes(self: Any, chunk_size: int | None = None) -> Iterator[bytes]:
        body: Body = vars(self)[_BODY]
        taken, clock = body.taken, time.perf_counter_ns
        body.reads = True
        try:
            for data in plain.iter_bytes(self, chunk_size):
                taken.append((clock(), data))
                if len(taken) >= MAX_WAITING:
                    body.look()
                body.reads = False
                yield data
                body.reads = True
        except GeneratorExit:
            body.left(None)
            raise
        except BaseException as error:
            body.failed(error)
            raise
        body.exhausted()

    def close(self: Any) -> None:
        try:
            plain.close(self)
        finally:
            vars(self)[_BODY].left(sys.exc_info()[1])

    async def aiter_bytes(self: Any, chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        body: Body = vars(self)[_BODY]
        taken, clock = body.taken, time.perf_counter_ns
        inner = plain.aiter_bytes(self, chunk_size)
        step = first_step(inner)
        body.reads = True
        try:
            while True:
                try:
                    data = await step
                except StopAsyncIteration:
                    break
                taken.append((clock(), data))
                if len(taken) >= MAX_WAITING:
                    body.look()
                body.reads = False
                yield data
                body.reads = True
                step = inner.asend(None)
        except GeneratorExit:
            body.left(None)
            await inner.aclose()
            raise
        except BaseException as error:
            body.failed(error)
            raise
        body.exhausted()

    async def aclose(self: Any) -> None:
        try:
            await plain.aclose(self)
        finally:
            vars(self)[_BODY].left(sys.exc_info()[1])

    for method in (iter_bytes, close, aiter_bytes, aclose):
        original = getattr(kind, method.__name__)
        methods[method.__name__] = functools.wraps(original)(method)
    return type(kind.__name__, (kind,), methods)


class Body:
    """What has been read of an answer so far."""

    def __init__(self, call: ModelCall) -> None:
        self.call = call
        self.taken: list[tuple[int, Any]] = []
        """When each piece came, by the performance counter, and the piece."""
        self.reads = False
        """Whether it is being read just now: it closes itself at its end, which is no leaving."""
        # What was being handled when the request was made is no failure of its answer.
        self._before = sys.exc_info()[1]

    def look(self) -> None:
        """Take in the pieces that wait."""
        with _guard.Guard("client_body"):
            self._look()

    def exhausted(self) -> None:
        """The client has read everything."""
        if not self.call.ended:
            with _guard.Guard("client_body"):
                self._look()
                self._end()

    def failed(self, error: BaseException) -> None:
        """Reading has raised."""
        if not self.call.ended:
            with _guard.Guard("client_body"):
                self._look()
                self._break(error)

    def left(self, error: BaseException | None) -> None:
        """The client has closed the answer, at its end or before, perhaps because of an error."""
        if self.call.ended or self.reads:
            return
        with _guard.Guard("client_body"):
            self._look()
            if error is not None and error is not self._before and _from_a_library(error):
                self._break(error)
            else:
                self._leave()

    def _look(self) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        raise NotImplementedError

    def _break(self, error: BaseException) -> None:
        raise NotImplementedError

    def _leave(self) -> None:
        raise NotImplementedError


class StreamBody(Body):
    """An event stream: its chunks are put together by the provider's adapter."""

    def __init__(self, call: ModelCall, adapt: Adapt) -> None:
        super().__init__(call)
        call.streams()
        self._now = call.start_tick / 1e9
        self._adapter = adapt(self._clock)
        self._sse = SseDecoder()
        self._is_done = False

    def _clock(self) -> float:
        """The time of the piece that is looked at, whenever that is."""
        return self._now

    def _look(self) -> None:
        taken = self.taken
        pieces = taken[:]
        del taken[: len(pieces)]
        follow, take = self._adapter.follow, self._sse.take
        for tick, data in pieces:
            self._now = tick / 1e9
            for frame in take(data):
                if follow(frame):
                    self._is_done = True

    def _end(self) -> None:
        self._adapter.finish()
        self._tell()

    def _break(self, error: BaseException) -> None:
        self._adapter.fail(error)
        self._tell(error=error)

    def _leave(self) -> None:
        if self._is_done or self._adapter.is_complete:
            self._end()
        else:
            self._now = time.perf_counter()
            self._adapter.abandon()
            self._tell(abandoned=True)

    def _tell(self, *, abandoned: bool = False, error: BaseException | None = None) -> None:
        adapter = self._adapter
        self.call.told(
            adapter.result(),
            adapter.response(),
            timings=adapter.timings(),
            abandoned=abandoned,
            error=error,
        )


class ChunkBody(StreamBody):
    """A stream whose client hands out the JSON of each chunk."""

    def _look(self) -> None:
        pieces = self.taken[:]
        del self.taken[: len(pieces)]
        for tick, data in pieces:
            self._now = tick / 1e9
            if self._adapter.take_text(data):
                continue
            chunk = decoded(data)
            if chunk is None:
                self._adapter.report_malformed("a chunk is no JSON object")
            else:
                self._adapter.process_chunk(chunk)


class JsonBody(Body):
    """An answer that is one JSON document, which the client reads when its caller wants it."""

    def __init__(self, call: ModelCall) -> None:
        super().__init__(call)
        self._parts: list[bytes] = []
        self._size = 0

    def _look(self) -> None:
        pieces = self.taken[:]
        del self.taken[: len(pieces)]
        for _, data in pieces:
            self._size += len(data)
            if self._size <= MAX_JSON_BYTES:
                self._parts.append(data)

    def _end(self) -> None:
        answer = decoded(b"".join(self._parts)) if self._size <= MAX_JSON_BYTES else None
        if answer is None:
            self.call.nothing()
        else:
            self.call.answered(answer)

    def _break(self, error: BaseException) -> None:
        self.call.failed(error)

    def _leave(self) -> None:
        self._end()


def decoded(body: bytes | str) -> dict[str, Any] | None:
    """A JSON object, or null where it is none."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    return found if isinstance(found, dict) else None


def _from_a_library(error: BaseException) -> bool:
    """Whether an error comes out of the code that closes the answer, not from the program's own.

    A client closes its stream while an error of its own passes through; a program closes it in the
    midst of any error at all.
    """
    if isinstance(error, GeneratorExit):
        return False
    tb = error.__traceback__
    if tb is None:
        return False
    name = str(tb.tb_frame.f_globals.get("__name__"))
    return name.startswith(("anthropic.", "openai.", "httpx", "google.genai."))
