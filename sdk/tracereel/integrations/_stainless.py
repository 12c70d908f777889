"""Hooks in the clients of Anthropic and OpenAI, which are generated alike.

Every call of theirs passes through the client's `request`; an answer through `_process_response`, a
retry through `_sleep_for_retry` and `_calculate_retry_timeout`. The hooks stand on one client or, where
that was asked for, on the class of all of them. A client without one of the inner methods is
recorded without what that would have told.
"""

import functools
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from tracereel import _guard
from tracereel.integrations import _bodies, _packages, _taped_http
from tracereel.integrations._dialects import Dialect
from tracereel.integrations._model_call import ModelCall, begin
from tracereel.integrations._tool_memory import ToolMemory
from tracereel.providers.streams import adapter_for
from tracereel.providers.streams.base import StreamAdapter
from tracereel.resilience._functions import error_text
from tracereel.resilience._policy import ERROR, TIMEOUT, is_timeout
from tracereel.resilience.backoff import EXPONENTIAL

ClientT = TypeVar("ClientT")
Original = Callable[..., Any]

RATE_LIMITED: Final = "rate_limited"
RETRY_AFTER: Final = "retry_after"
"""The strategy of a retry whose delay the server has named."""
_MARK: Final = "_tracereel_recording"
_COPIES: Final = ("copy", "with_options")
_INSIDE: Final = ("_process_response", "_sleep_for_retry", "_calculate_retry_timeout")


@dataclass(frozen=True, slots=True)
class Recording:
    """How the calls of a client are recorded."""

    routes: Mapping[str, Dialect]
    """Path of a request → what it is; requests to other paths are left alone."""
    provider: Callable[[Any], str]
    """The client → whose answers these are, as the events say it."""
    memory: ToolMemory = field(default_factory=ToolMemory)

    def begin(self, client: Any, options: Any) -> ModelCall | None:
        """A request begins; null where it is none to a model, or nothing is recorded."""
        if options.method != "post" and str(options.method).lower() != "post":
            return None
        dialect = self.routes.get(options.url)
        if dialect is None:
            dialect = self.routes.get(str(options.url).partition("?")[0])
            if dialect is None:
                return None
        body, more = options.json_data, getattr(options, "extra_json", None)
        if more and isinstance(body, dict):
            body = {**body, **more}
        return begin(dialect, body, provider=self.provider(client), memory=self.memory)


def check(client: object, package: str, expected: str) -> None:
    """Say what is wrong with something that is no client.

    Raises:
        TypeError: it is none of that package.
    """
    names = {each.__module__.partition(".")[0] for each in type(client).__mro__}
    if package not in names or not hasattr(client, "request"):
        raise TypeError(f"wrap takes a client, {expected}; got {_packages.kind_of(client)}")


def wrap(client: ClientT, recording: Recording) -> ClientT:
    """Record the calls of one client, and of the copies that are made of it."""
    kind = type(client)
    own = vars(client)
    if _MARK in own:
        unwrap(client)
    own[_MARK] = recording
    hooks = _hooks_for(kind)
    for name, hook in hooks.items():
        if hasattr(kind, name):
            own[name] = _on_instance(client, getattr(kind, name), hook)
    for name in _COPIES:
        own[name] = _on_instance(client, getattr(kind, name), _copy)
    return client


def unwrap(client: ClientT) -> ClientT:
    """Record the calls of a client no longer; what is under way is recorded to its end."""
    own = vars(client)
    if own.pop(_MARK, None) is not None:
        for name in ("request", *_INSIDE, *_COPIES):
            own.pop(name, None)
    return client


class Patches:
    """The hooks on classes, and what stood there before."""

    def __init__(self) -> None:
        self._before: list[tuple[type, str, Any]] = []

    def apply(self, classes: tuple[type, ...], recording: Recording) -> None:
        """Record the calls of every client of these classes, made before or after."""
        if self._before:
            return
        for kind in classes:
            for name, hook in _hooks_for(kind).items():
                owner = next((each for each in kind.__mro__ if name in vars(each)), None)
                if owner is None or any(
                    (owner, name) == (known, other) for known, other, _ in self._before
                ):
                    continue
                original = vars(owner)[name]
                self._before.append((owner, name, original))
                setattr(owner, name, _on_class(original, hook, recording))

    def undo(self) -> None:
        """Put back what stood there."""
        while self._before:
            owner, name, original = self._before.pop()
            setattr(owner, name, original)


def _hooks_for(kind: type) -> dict[str, "Hook"]:
    """The hooks of a client: those of one that waits, or of one that is awaited."""
    is_async = hasattr(kind, "__aenter__")
    return _ASYNC_HOOKS if is_async else _HOOKS


Hook = Callable[..., Any]
"""Called with the recording, the client's own method, the client, and the method's arguments."""


def _on_instance(client: Any, original: Original, hook: Hook) -> Original:
    # The client refers to itself by this, as it does by its resources from their first use on.
    if hook in _AWAITED:

        @functools.wraps(original)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return await hook(vars(client).get(_MARK), original, client, *args, **kwargs)

        return call_async

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return hook(vars(client).get(_MARK), original, client, *args, **kwargs)

    return call


def _on_class(original: Original, hook: Hook, recording: Recording) -> Original:
    if hook in _AWAITED:

        @functools.wraps(original)
        async def call_async(self: Any, *args: Any, **kwargs: Any) -> Any:
            # A client that is wrapped by itself has its own hooks around this.
            mine = None if _MARK in vars(self) else recording
            return await hook(mine, original, self, *args, **kwargs)

        return call_async

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        mine = None if _MARK in vars(self) else recording
        return hook(mine, original, self, *args, **kwargs)

    return call


def _request(
    recording: Recording | None,
    original: Original,
    client: Any,
    cast_to: Any,
    options: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    work = _begun(recording, client, options)
    if work is None:
        return original(client, cast_to, options, *args, **kwargs)
    try:
        result = original(client, cast_to, options, *args, **kwargs)
    except BaseException as error:
        work.failed(error)
        raise
    else:
        work.returned(result)
        return result
    finally:
        work.rests()


async def _request_async(
    recording: Recording | None,
    original: Original,
    client: Any,
    cast_to: Any,
    options: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    work = _begun(recording, client, options)
    if work is None:
        return await original(client, cast_to, options, *args, **kwargs)
    try:
        result = await original(client, cast_to, options, *args, **kwargs)
    except BaseException as error:
        work.failed(error)
        raise
    else:
        work.returned(result)
        return result
    finally:
        work.rests()


def _process_response(
    _recording: Recording | None, original: Original, client: Any, *args: Any, **kwargs: Any
) -> Any:
    _responded(kwargs)
    return original(client, *args, **kwargs)


async def _process_response_async(
    _recording: Recording | None, original: Original, client: Any, *args: Any, **kwargs: Any
) -> Any:
    _responded(kwargs)
    return await original(client, *args, **kwargs)


def _sleep(
    _recording: Recording | None, original: Original, client: Any, *args: Any, **kwargs: Any
) -> Any:
    work = _waits(kwargs)
    original(client, *args, **kwargs)
    if work is not None:
        work.call.resumed()


async def _sleep_async(
    _recording: Recording | None, original: Original, client: Any, *args: Any, **kwargs: Any
) -> Any:
    work = _waits(kwargs)
    await original(client, *args, **kwargs)
    if work is not None:
        work.call.resumed()


def _delay(
    _recording: Recording | None, original: Original, client: Any, *args: Any, **kwargs: Any
) -> Any:
    delay = original(client, *args, **kwargs)
    work = _current.get()
    if work is not None:
        with _guard.Guard("client_retry"):
            work.delayed(delay)
    return delay


def _copy(
    recording: Recording | None, original: Original, client: Any, *args: Any, **kwargs: Any
) -> Any:
    copy = original(client, *args, **kwargs)
    if recording is not None:
        with _guard.Guard("client_copy"):
            wrap(copy, recording)
    return copy


_HOOKS: Final[dict[str, Hook]] = {
    "request": _request,
    "_process_response": _process_response,
    "_sleep_for_retry": _sleep,
    "_calculate_retry_timeout": _delay,
}
_ASYNC_HOOKS: Final[dict[str, Hook]] = {
    "request": _request_async,
    "_process_response": _process_response_async,
    "_sleep_for_retry": _sleep_async,
    "_calculate_retry_timeout": _delay,
}
_AWAITED: Final = frozenset({_request_async, _process_response_async, _sleep_async})


class Work:
    """A client at work on one call."""

    __slots__ = ("_exchange", "_failure", "_is_watched", "_response", "_token", "call")

    def __init__(self, call: ModelCall, client: Any) -> None:
        self.call = call
        self._exchange = _taped_http.begin(call, vars(client).get("_client"))
        self._response: Any = None
        self._is_watched = False
        self._failure: tuple[str, str, Any, int | None] | None = None
        self._token = _current.set(self)

    def responded(self, response: Any) -> None:
        """An answer's head is there, and perhaps its body."""
        self._response = response
        self.call.sent(getattr(response, "_request", None))
        self.call.headers(response.headers)
        if not self.call.ended and not response.is_closed and response.is_success:
            self._is_watched = True
            _bodies.watch(response, self.call, self._adapter)

    def waits(self, response: Any, error: BaseException | None, attempts: int | None) -> None:
        """An attempt has failed: with an error answer, or because there was none."""
        reason, told = ERROR, "the attempt failed"
        if response is not None:
            self.call.headers(response.headers)
            told = f"{response.status_code} {response.reason_phrase}".strip()
            reason = RATE_LIMITED if response.status_code == 429 else ERROR
            reason = TIMEOUT if response.status_code in (408, 504) else reason
        elif error is not None:
            told = error_text(error)
            reason = TIMEOUT if is_timeout(error) or "Timeout" in type(error).__name__ else ERROR
        self._response = None
        self._failure = told, reason, response, attempts

    def delayed(self, delay: float) -> None:
        """The client has made up its mind how long it waits before it tries again."""
        if self._failure is None:
            return
        told, reason, response, attempts = self._failure
        self._failure = None
        headers = response.headers if response is not None else {}
        named = "retry-after" in headers or "retry-after-ms" in headers
        self.call.retried(
            error=told,
            reason=reason,
            strategy=RETRY_AFTER if named else EXPONENTIAL,
            delay=delay,
            attempts=attempts,
        )

    def returned(self, result: Any) -> None:
        """The client's method returns; a body that is not read yet ends the call when it is."""
        if self._is_watched or self.call.ended:
            return
        try:
            response = self._response
            body = response.content if response is not None else b""
            if not self.call.answered_plainly(body):
                answer = _bodies.decoded(body)
                self.call.answered(result if answer is None else answer)
        except Exception as error:  # noqa: BLE001 - a guard, without the price of one
            _guard.report("client_answer", error)

    def failed(self, error: BaseException) -> None:
        """The client's method raises."""
        with _guard.Guard("client_answer"):
            self.call.failed(error)

    def rests(self) -> None:
        """The client's method is left."""
        try:
            self.call.detach()
            _taped_http.end(self._exchange)
            try:
                _current.reset(self._token)
            except ValueError:
                pass  # a coroutine closed from another context than it ran in
        except Exception as error:  # noqa: BLE001 - a guard, without the price of one
            _guard.report("client_answer", error)

    def _adapter(self, clock: Callable[[], float]) -> StreamAdapter:
        call = self.call
        return adapter_for(call.dialect.provider, model=call.model, keep_raw=False, clock=clock)


_current: ContextVar[Work | None] = ContextVar("tracereel_client_work", default=None)


def _begun(recording: Recording | None, client: Any, options: Any) -> Work | None:
    if recording is None:
        return None
    try:
        call = recording.begin(client, options)
        return None if call is None else Work(call, client)
    except Exception as error:  # noqa: BLE001
        _guard.report("client_call", error)
        return None


def _responded(arguments: dict[str, Any]) -> None:
    work, response = _current.get(), arguments.get("response")
    if work is not None and response is not None:
        try:
            work.responded(response)
        except Exception as error:  # noqa: BLE001 - a guard, without the price of one
            _guard.report("client_answer", error)


def _waits(arguments: dict[str, Any]) -> Work | None:
    work = _current.get()
    if work is not None:
        with _guard.Guard("client_retry"):
            limit = arguments.get("max_retries")
            attempts = limit + 1 if isinstance(limit, int) else None
            work.waits(arguments.get("response"), sys.exc_info()[1], attempts)
    return work
