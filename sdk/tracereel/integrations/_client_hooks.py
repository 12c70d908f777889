"""Hooks on methods of clients, on one object or on a class, and the calls they record."""

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from typing import Any, Final, Self, TypeVar

from tracereel._runtime import guard
from tracereel.integrations import _taped_http
from tracereel.integrations._model_call import ModelCall
from tracereel.providers.streams import adapter_for
from tracereel.providers.streams.base import StreamAdapter

ClientT = TypeVar("ClientT")
Original = Callable[..., Any]
Hook = Callable[..., Any]
"""Function called with the recording, the original method, the client and the arguments."""
Hooks = Mapping[str, Hook]
"""Method name → its hook."""

_MARK: Final = "_tracereel_recording"


def wrap(client: ClientT, hooks: Hooks, recording: Any) -> ClientT:
    """Hook the methods of one client; return the same client."""
    unwrap(client, hooks)
    own, kind = vars(client), type(client)
    own[_MARK] = recording
    for name, hook in hooks.items():
        if hasattr(kind, name):
            # This creates a reference cycle; the client's resources create one anyway at first use.
            method = _hooked(getattr(kind, name), hook, lambda self: vars(self).get(_MARK))
            own[name] = types.MethodType(method, client)
    return client


def unwrap(client: ClientT, hooks: Hooks) -> ClientT:
    """Remove the hooks of a client; calls in progress are recorded to their end."""
    own = vars(client)
    if own.pop(_MARK, None) is not None:
        for name in hooks:
            own.pop(name, None)
    return client


class ClassHooks:
    """Hooks on classes, and the original methods."""

    def __init__(self) -> None:
        self._before: list[tuple[type, str, Any]] = []

    def apply(self, classes: Mapping[type, Hooks], recording: Any) -> None:
        """Hook the methods of every client of these classes, existing and new."""
        if self._before:
            return

        def recording_of(client: Any) -> Any:
            # A client that was wrapped itself has its own hooks.
            return None if _MARK in vars(client) else recording

        for kind, hooks in classes.items():
            for name, hook in hooks.items():
                owner = next((each for each in kind.__mro__ if name in vars(each)), None)
                if owner is None or (owner, name) in [known[:2] for known in self._before]:
                    continue
                original = vars(owner)[name]
                self._before.append((owner, name, original))
                setattr(owner, name, _hooked(original, hook, recording_of))

    def undo(self) -> None:
        """Restore the original methods."""
        while self._before:
            owner, name, original = self._before.pop()
            setattr(owner, name, original)


def _hooked(original: Original, hook: Hook, recording_of: Callable[[Any], Any]) -> Original:
    if inspect.iscoroutinefunction(hook):

        @functools.wraps(original)
        async def call_async(self: Any, *args: Any, **kwargs: Any) -> Any:
            return await hook(recording_of(self), original, self, *args, **kwargs)

        return call_async

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return hook(recording_of(self), original, self, *args, **kwargs)

    return call


class ClientWork:
    """Client call in progress; its block ends when the client's method has returned."""

    __slots__ = ("_exchange", "_token", "call")

    def __init__(self, call: ModelCall, http: Any) -> None:
        self.call = call
        self._exchange = _taped_http.begin(call, http)
        self._token: Token[ClientWork | None] | None = _current.set(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None:
            with guard.Guard("client_answer"):
                self.call.failed(error)
        self.rests()

    @classmethod
    def current(cls) -> Self | None:
        """Return the call of this kind whose method is running, or `None`."""
        work = _current.get()
        return work if isinstance(work, cls) else None

    def rests(self) -> None:
        """Restore the context, once."""
        token, self._token = self._token, None
        if token is None:
            return
        try:
            self.call.detach()
            _taped_http.end(self._exchange)
            try:
                _current.reset(token)
            except ValueError:
                pass  # the coroutine was closed in another context
        except Exception as error:  # noqa: BLE001 - inlined guard, for speed
            guard.report("client_answer", error)

    def adapter(self, clock: Callable[[], float]) -> StreamAdapter:
        """Return the adapter of a streamed response."""
        call = self.call
        return adapter_for(call.dialect.provider, model=call.model, keep_raw=False, clock=clock)


_current: ContextVar[ClientWork | None] = ContextVar("tracereel_client_work", default=None)
