"""Google integration: records calls of the `google-genai` client as model calls.

    from tracereel.integrations.google import wrap
    client = wrap(genai.Client())

`client.aio`, chats, streams and automatic function calling are recorded too. `unwrap(client)`
stops recording.
"""

import functools
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import ContextVar, Token
from typing import Any, Final, TypeVar

from tracereel._core.wrapping import first_step
from tracereel._runtime import guard
from tracereel.integrations import _packages, _taped_http
from tracereel.integrations._bodies import MAX_WAITING, ChunkBody, decoded
from tracereel.integrations._compat import google_api_client
from tracereel.integrations._dialects import GOOGLE, GOOGLE_EMBEDDINGS
from tracereel.integrations._model_call import ModelCall, begin
from tracereel.integrations._tool_memory import ToolMemory
from tracereel.providers.streams import adapter_for
from tracereel.providers.streams.base import StreamAdapter
from tracereel.resilience.backoff import EXPONENTIAL
from tracereel.resilience.policy import ERROR, TIMEOUT, is_timeout
from tracereel.resilience.wrapped_functions import error_text

ClientT = TypeVar("ClientT")
Original = Callable[..., Any]

_PATH: Final = re.compile(r"models/(?P<model>[^/:?]+):(?P<method>\w+)")
_METHODS: Final = {
    "generateContent": GOOGLE,
    "streamGenerateContent": GOOGLE,
    "embedContent": GOOGLE_EMBEDDINGS,
    "batchEmbedContents": GOOGLE_EMBEDDINGS,
}
_MARK: Final = "_tracereel_recording"
_RATE_LIMITED: Final = "rate_limited"


class GoogleWork:
    """Client call in progress."""

    __slots__ = ("_exchange", "_failed_at", "_failure", "_token", "call")

    def __init__(self, call: ModelCall, http: Any) -> None:
        self.call = call
        self._exchange = _taped_http.begin(call, http)
        self._failure: BaseException | None = None
        self._failed_at = 0.0
        self._token: Token[GoogleWork | None] | None = _current.set(self)

    def attempt(self) -> None:
        """Record a retry if the previous attempt failed."""
        error, self._failure = self._failure, None
        if error is None:
            return
        with guard.Guard("client_retry"):
            code = getattr(error, "code", None)
            reason = TIMEOUT if is_timeout(error) or code in (408, 504) else ERROR
            self.call.retried(
                error=error_text(error),
                reason=_RATE_LIMITED if code == 429 else reason,
                strategy=EXPONENTIAL,
                # Measured, because the client does not expose the delay.
                delay=time.monotonic() - self._failed_at,
                attempts=None,
            )

    def attempt_failed(self, error: BaseException) -> None:
        """Keep the error of a failed attempt until the next one starts."""
        self._failure, self._failed_at = error, time.monotonic()

    def answered(self, response: Any) -> None:
        """Complete the call with a whole response."""
        with guard.Guard("client_answer"):
            self.call.headers(response.headers)
            body = response.body or ""
            answer = decoded(body)
            if answer is None and body:
                try:
                    json.loads(body)
                except ValueError as error:
                    # The client parses the body later and raises the same error.
                    self.call.failed(error)
                    return
            self.call.answered(answer)

    def failed(self, error: BaseException) -> None:
        """Fail the call."""
        with guard.Guard("client_answer"):
            self.call.failed(error)

    def rests(self) -> None:
        """Restore the context after the client's method."""
        with guard.Guard("client_answer"):
            self.call.detach()
            exchange, self._exchange = self._exchange, None
            _taped_http.end(exchange)
            token, self._token = self._token, None
            try:
                if token is not None:
                    _current.reset(token)
            except ValueError:
                pass  # the coroutine was closed in another context


_current: ContextVar[GoogleWork | None] = ContextVar("tracereel_google_work", default=None)


def _begun(memory: ToolMemory | None, path: str, body: Any, http: Any) -> GoogleWork | None:
    if memory is None:
        return None
    try:
        found = _PATH.search(path)
        dialect = _METHODS.get(found["method"]) if found else None
        if found is None or dialect is None:
            return None
        call = begin(dialect, body, model=found["model"], memory=memory)
        return None if call is None else GoogleWork(call, http)
    except Exception as error:  # noqa: BLE001
        guard.report("client_call", error)
        return None


def _body(work: GoogleWork) -> ChunkBody:
    call = work.call

    def adapt(clock: Callable[[], float]) -> StreamAdapter:
        return adapter_for("google", model=call.model, keep_raw=False, clock=clock)

    return ChunkBody(call, adapt)


def _request(memory: Any, original: Original, api: Any, method: str, path: str, *rest: Any) -> Any:
    work = _begun(memory, path, rest[0] if rest else None, vars(api).get("_httpx_client"))
    if work is None:
        return original(api, method, path, *rest)
    try:
        response = original(api, method, path, *rest)
    except BaseException as error:
        work.failed(error)
        raise
    else:
        work.answered(response)
        return response
    finally:
        work.rests()


async def _request_async(
    memory: Any, original: Original, api: Any, method: str, path: str, *rest: Any
) -> Any:
    work = _begun(memory, path, rest[0] if rest else None, vars(api).get("_async_httpx_client"))
    if work is None:
        return await original(api, method, path, *rest)
    try:
        response = await original(api, method, path, *rest)
    except BaseException as error:
        work.failed(error)
        raise
    else:
        work.answered(response)
        return response
    finally:
        work.rests()


def _stream(
    memory: Any, original: Original, api: Any, method: str, path: str, *rest: Any
) -> Generator[Any, None, None]:
    inner = original(api, method, path, *rest)
    work = _begun(memory, path, rest[0] if rest else None, vars(api).get("_httpx_client"))
    if work is None:
        yield from inner
        return
    body = _body(work)
    taken, clock = body.taken, time.perf_counter_ns
    try:
        for chunk in inner:
            taken.append((clock(), chunk.body))
            if len(taken) == 1:
                work.rests()  # the request has been answered: from here on the program's code runs
            elif len(taken) >= MAX_WAITING:
                body.look()
            yield chunk
    except GeneratorExit:
        body.left(None)
        raise
    except BaseException as error:
        body.failed(error)
        raise
    finally:
        work.rests()
    body.exhausted()


async def _stream_async(
    memory: Any, original: Original, api: Any, method: str, path: str, *rest: Any
) -> Any:
    work = _begun(memory, path, rest[0] if rest else None, vars(api).get("_async_httpx_client"))
    if work is None:
        return await original(api, method, path, *rest)
    try:
        inner = await original(api, method, path, *rest)
    except BaseException as error:
        work.failed(error)
        raise
    finally:
        work.rests()
    return _follow(inner, _body(work))


async def _follow(inner: Any, body: ChunkBody) -> AsyncGenerator[Any, None]:
    taken, clock = body.taken, time.perf_counter_ns
    step = first_step(inner)
    try:
        while True:
            try:
                chunk = await step
            except StopAsyncIteration:
                break
            taken.append((clock(), chunk.body))
            if len(taken) >= MAX_WAITING:
                body.look()
            yield chunk
            step = inner.asend(None)
    except GeneratorExit:
        body.left(None)
        await inner.aclose()
        raise
    except BaseException as error:
        body.failed(error)
        raise
    body.exhausted()


def _once(_memory: Any, original: Original, api: Any, *args: Any, **kwargs: Any) -> Any:
    work = _current.get()
    if work is None:
        return original(api, *args, **kwargs)
    work.attempt()
    try:
        return original(api, *args, **kwargs)
    except BaseException as error:
        work.attempt_failed(error)
        raise


async def _once_async(_memory: Any, original: Original, api: Any, *args: Any, **kwargs: Any) -> Any:
    work = _current.get()
    if work is None:
        return await original(api, *args, **kwargs)
    work.attempt()
    try:
        return await original(api, *args, **kwargs)
    except BaseException as error:
        work.attempt_failed(error)
        raise


_HOOKS: Final[dict[str, Original]] = {
    "request": _request,
    "async_request": _request_async,
    "request_streamed": _stream,
    "async_request_streamed": _stream_async,
    "_request_once": _once,
    "_async_request_once": _once_async,
}
_before: Final[list[tuple[type, str, Any]]] = []


def wrap(client: ClientT) -> ClientT:
    """Record the calls of one client; return the same client.

    Raises:
        TypeError: it is not a google-genai client.
    """
    own = vars(_api(client))
    _packages.warn_if_old("google")
    kind = type(_api(client))
    memory = ToolMemory()
    own[_MARK] = memory
    for name, hook in _HOOKS.items():
        if hasattr(kind, name):
            method = functools.partial(hook, memory, getattr(kind, name), _api(client))
            own[name] = method
    return client


def unwrap(client: ClientT) -> ClientT:
    """Stop recording a client; return the same client."""
    own = vars(_api(client))
    if own.pop(_MARK, None) is not None:
        for name in _HOOKS:
            own.pop(name, None)
    return client


def instrument() -> None:
    """Record the calls of all google-genai clients in this process until `uninstrument`."""
    api_client = google_api_client()
    _packages.warn_if_old("google")
    if _before:
        return
    memory = ToolMemory()
    for name, hook in _HOOKS.items():
        if (original := vars(api_client).get(name)) is not None:
            _before.append((api_client, name, original))
            setattr(api_client, name, _on_class(original, hook, memory))


def uninstrument() -> None:
    """Undo `instrument`."""
    while _before:
        kind, name, original = _before.pop()
        setattr(kind, name, original)


def _on_class(original: Original, hook: Original, memory: ToolMemory) -> Original:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        # A client that was wrapped itself has its own hooks.
        mine = None if _MARK in vars(self) else memory
        return hook(mine, original, self, *args, **kwargs)

    return call


def _api(client: Any) -> Any:
    api = getattr(client, "_api_client", None)
    if not hasattr(api, "request_streamed"):
        kind = _packages.kind_of(client)
        raise TypeError(f"wrap takes a client, google.genai.Client; got {kind}")
    return api
