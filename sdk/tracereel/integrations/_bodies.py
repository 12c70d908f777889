"""Observation of HTTP response bodies while the client reads them: event streams or JSON.

The client's response object stays in place; only its class is replaced by a subclass that observes
`iter_bytes` and `close`. So every way of reading it (objects, lines, helpers) is covered, and the
client's results are unchanged.
"""

import functools
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from typing import Any, Final

import msgspec

from tracereel._core.wrapping import first_step
from tracereel._runtime import guard
from tracereel.integrations._model_call import ModelCall
from tracereel.providers.streams.base import StreamAdapter

MAX_WAITING: Final = 64
"""Chunks that are buffered before parsing: batches are cheaper, and memory is bounded."""
MAX_JSON_BYTES: Final = 32 * 2**20
_BODY: Final = "_tracereel_body"
_EVENT_STREAM: Final = "text/event-stream"

Adapt = Callable[[Callable[[], float]], StreamAdapter]
"""Factory of a stream adapter, given the clock to use."""


def watch(response: Any, call: ModelCall, adapt: Adapt) -> None:
    """Observe a response until its body is read, and then end its call."""
    kind = str(response.headers.get("content-type") or "")
    body: ResponseBody = (
        StreamBody(call, adapt) if kind.startswith(_EVENT_STREAM) else JsonBody(call)
    )
    vars(response)[_BODY] = body
    # Replace the class instead of setting methods on the object. Those would create a reference
    # cycle, and a response that is dropped unread would be closed late.
    own = type(response)
    found = _kinds.get(own)
    if found is None:
        found = _kinds[own] = _watched(own)
    response.__class__ = found


_kinds: Final[dict[type, type]] = {}


def _watched(kind: type) -> type:
    """Return a subclass of a response class that observes reading; its name is the same."""
    plain: Any = kind
    methods: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}

    def iter_bytes(self: Any, chunk_size: int | None = None) -> Iterator[bytes]:
        return followed(plain.iter_bytes(self, chunk_size), vars(self)[_BODY])

    def close(self: Any) -> None:
        try:
            plain.close(self)
        finally:
            vars(self)[_BODY].left(sys.exc_info()[1])

    def aiter_bytes(self: Any, chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        return followed_async(plain.aiter_bytes(self, chunk_size), vars(self)[_BODY])

    async def aclose(self: Any) -> None:
        try:
            await plain.aclose(self)
        finally:
            vars(self)[_BODY].left(sys.exc_info()[1])

    for method in (iter_bytes, close, aiter_bytes, aclose):
        original = getattr(kind, method.__name__)
        methods[method.__name__] = functools.wraps(original)(method)
    return type(kind.__name__, (kind,), methods)


def followed(
    inner: Iterator[Any], body: "ResponseBody", answered: Callable[[], None] | None = None
) -> Generator[Any, None, None]:
    """Pass the chunks of a response on and observe them; `answered` is called at the first one."""
    taken, clock = body.taken, time.perf_counter_ns
    body.reads = True
    try:
        for data in inner:
            taken.append((clock(), data))
            if answered is not None:
                answered()
                answered = None
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


async def followed_async(
    inner: AsyncGenerator[Any, None], body: "ResponseBody"
) -> AsyncGenerator[Any, None]:
    """Pass the chunks of an asynchronous response on and observe them."""
    taken, clock = body.taken, time.perf_counter_ns
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


class ResponseBody:
    """Body of a response that has been read so far."""

    def __init__(self, call: ModelCall) -> None:
        self.call = call
        self.taken: list[tuple[int, Any]] = []
        """Performance counter values and chunks, not parsed yet."""
        self.reads = False
        """Whether it is being read; closing itself at its end is not an abandonment."""
        # An exception that was being handled when the request was made is not a failure of the
        # response.
        self._before = sys.exc_info()[1]

    def look(self) -> None:
        """Parse the buffered chunks."""
        with guard.Guard("client_body"):
            self._look()

    def exhausted(self) -> None:
        """End the call after the client has read everything."""
        if not self.call.ended:
            with guard.Guard("client_body"):
                self._look()
                self._end()

    def failed(self, error: BaseException) -> None:
        """End the call after reading has raised."""
        if not self.call.ended:
            with guard.Guard("client_body"):
                self._look()
                self._break(error)

    def left(self, error: BaseException | None) -> None:
        """End the call after the client has closed the response, perhaps because of an error."""
        if self.call.ended or self.reads:
            return
        with guard.Guard("client_body"):
            self._look()
            if error is not None and error is not self._before and _from_a_library(error):
                self._break(error)
            else:
                self._leave()

    def _look(self) -> None:
        pieces = self.taken[:]
        del self.taken[: len(pieces)]
        for tick, data in pieces:
            self._read(tick, data)

    def _read(self, tick: int, data: Any) -> None:
        raise NotImplementedError

    def _end(self) -> None:
        raise NotImplementedError

    def _break(self, error: BaseException) -> None:
        self.call.failed(error)

    def _leave(self) -> None:
        self._end()


class StreamBody(ResponseBody):
    """Event stream, assembled by the provider's stream adapter."""

    def __init__(self, call: ModelCall, adapt: Adapt) -> None:
        super().__init__(call)
        call.streams()
        self._now = call.start_tick / 1e9
        self._adapter = adapt(self._clock)
        self._is_done = False

    def _clock(self) -> float:
        """Return the arrival time of the chunk that is being parsed."""
        return self._now

    def _read(self, tick: int, data: Any) -> None:
        self._now = tick / 1e9
        if self._adapter.follow_bytes(data):
            self._is_done = True

    def _end(self) -> None:
        self._adapter.finish()
        self._complete()

    def _break(self, error: BaseException) -> None:
        self._adapter.fail(error)
        self._complete(error=error)

    def _leave(self) -> None:
        if self._is_done or self._adapter.is_complete:
            self._end()
        else:
            self._now = time.perf_counter()
            self._adapter.abandon()
            self._complete(abandoned=True)

    def _complete(self, *, abandoned: bool = False, error: BaseException | None = None) -> None:
        adapter = self._adapter
        self.call.complete_with(
            adapter.result(),
            adapter.response(),
            timings=adapter.timings(),
            abandoned=abandoned,
            error=error,
        )


class ChunkBody(StreamBody):
    """Stream whose client yields objects with the JSON text of each chunk in `body`."""

    def _read(self, tick: int, data: Any) -> None:
        self._now = tick / 1e9
        chunk = decoded(data.body)
        if chunk is None:
            self._adapter.report_malformed("a chunk is no JSON object")
        else:
            self._adapter.follow_chunk(chunk)


class JsonBody(ResponseBody):
    """Response with one JSON document, which the client reads on demand."""

    def __init__(self, call: ModelCall) -> None:
        super().__init__(call)
        self._parts: list[bytes] = []
        self._size = 0

    def _read(self, tick: int, data: Any) -> None:  # noqa: ARG002 - as of streams
        self._size += len(data)
        if self._size <= MAX_JSON_BYTES:
            self._parts.append(data)

    def _end(self) -> None:
        answer = decoded(b"".join(self._parts)) if self._size <= MAX_JSON_BYTES else None
        if answer is None:
            self.call.nothing()
        else:
            self.call.answered(answer)


def decoded(body: bytes | str) -> dict[str, Any] | None:
    """Decode a JSON object, or return `None` if it is not one."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    return found if isinstance(found, dict) else None


def _from_a_library(error: BaseException) -> bool:
    """Return whether an error was raised by the client library, not by the program.

    A client closes its stream because of its own error. A program may close it while handling any
    error.
    """
    if isinstance(error, GeneratorExit):
        return False
    tb = error.__traceback__
    if tb is None:
        return False
    name = str(tb.tb_frame.f_globals.get("__name__"))
    return name.startswith(("anthropic.", "openai.", "httpx", "google.genai."))
