"""Carries a run across borders: headers, threads, executors, subprocesses, message queues.

What travels: the W3C trace context, and in the W3C baggage the run's own ids and its clock
(`tracereel.trace_id`, `.request_id`, `.session_id`, `.user_id`, `.hlc`). `inject` writes it into a
message, `extract` makes it current around the code that handles the message: what is traced there
joins the run, under the span that sent it, ordered after it whatever the clocks of both say.
"""

import asyncio
import contextvars
import inspect
import os
from collections.abc import Callable, Mapping
from contextvars import Token
from types import TracebackType
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

from opentelemetry import baggage, trace
from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, TraceFlags

from tracereel import _context, _guard, _recorder, _remote
from tracereel._context import Execution
from tracereel._remote import Incoming, RemoteIdentity

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

CLOCK_HEADER: Final = "tracereel-hlc"
"""In answers: the clock of who answers, so that what the caller does next comes after."""

_NOTHING: Final = Incoming(RemoteIdentity(), None, {})


def inject(carrier: C, *, identity: bool = True) -> C:
    """Write the current trace, ids and clock into the headers of a message; gives the carrier back.

    The carrier is a mutable mapping of headers, or a list of pairs as Kafka clients and ASGI have
    them. Headers of the same names are replaced, other members of their baggage are kept.

    Args:
        identity: off for receivers outside your house: the trace context only, no baggage of ours.
    """
    with _guard.Guard("inject"):
        for name, value in _headers(carrier, identity=identity).items():
            _write(carrier, name, value)
    return carrier


def extract(carrier: object) -> "Extraction":
    """A context in which the run that sent these headers goes on; never raises for what they say.

    Example:
        with extract(message.headers()):
            handle(message)
    """
    incoming = _NOTHING
    with _guard.Guard("extract"):
        incoming = _remote.read_carrier(carrier)
    return Extraction(incoming)


class Extraction:
    """What `extract` found; entering makes it current, leaving restores what was.

    `serving` is for servers: a request is a run of its own even where it says nothing.
    """

    __slots__ = ("_incoming", "_serving", "_tokens")

    def __init__(self, incoming: Incoming, *, serving: bool = False) -> None:
        self._incoming = incoming
        self._serving = serving
        self._tokens: list[_Tokens] = []

    def __enter__(self) -> RemoteIdentity:
        incoming = self._incoming
        if incoming:
            with _guard.Guard("extract"):
                observe_clock(incoming.identity.hlc)
                self._tokens.append(self._attach())
        return incoming.identity

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        with _guard.Guard("extract"):
            if self._tokens:
                self._tokens.pop().reset()

    def _attach(self) -> "_Tokens":
        incoming, base = self._incoming, otel_context.get_current()
        # The run that was current here is another one, unless only loose ids have come.
        leaves = incoming.parent is not None or incoming.identity.trace_id is not None
        if self._serving:
            leaves = True
            around = trace.get_current_span().get_span_context()
            execution = _context.current_execution()
            if execution is not None and f"{around.span_id:016x}" == execution.span_id:
                # A run that has started the server: its requests are not part of it.
                base = Context()
            elif incoming.parent and around.trace_id == incoming.parent.trace_id:
                # Another instrumentation has adopted the caller: its span is between us and them.
                incoming = Incoming(incoming.identity, None, incoming.members)
        return _Tokens(
            _remote.here.set(incoming.identity),
            _context._current.set(None) if leaves else None,  # noqa: SLF001
            otel_context.attach(incoming.context(base)),
        )


class _Tokens:
    """What restores the three variables, newest first."""

    __slots__ = ("_execution", "_otel", "_remote")

    def __init__(
        self,
        remote: Token[RemoteIdentity | None],
        execution: Token[Execution | None] | None,
        otel: Token[Context],
    ) -> None:
        self._remote = remote
        self._execution = execution
        self._otel = otel

    def reset(self) -> None:
        try:
            _remote.here.reset(self._remote)
        except ValueError:
            # Left in another context than entered (a generator closed elsewhere): nothing to restore,
            # and OpenTelemetry would log an error if it were asked.
            return
        if self._execution is not None:
            _context._current.reset(self._execution)  # noqa: SLF001
        otel_context.detach(self._otel)


class _Carried(Generic[P, R]):
    """A function with the context it was bound in; pickled, it takes headers with it instead."""

    __slots__ = ("__wrapped__", "_context", "_headers")

    def __init__(
        self,
        function: Callable[P, R],
        context: contextvars.Context | None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.__wrapped__ = function
        self._context = context
        self._headers = headers

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._context is None:
            with extract(self._headers):
                return self.__wrapped__(*args, **kwargs)
        # A copy per call: one context cannot be entered by two threads at once.
        return self._context.copy().run(self.__wrapped__, *args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        headers = self._headers
        if self._context is not None:
            headers = self._context.copy().run(lambda: inject(dict[str, str]()))
        return _Carried, (self.__wrapped__, None, headers)


def carry(function: Callable[P, R]) -> Callable[P, R]:
    """Bind a function to the context of now, for threads, executors, callbacks and process pools.

    Whoever calls it, and wherever, the run that is current here is current in it. Tasks of asyncio
    and `asyncio.to_thread` do that by themselves; a coroutine function is bound too, for
    `asyncio.run_coroutine_threadsafe`.

    Example:
        executor.submit(carry(agent), prompt)
    """
    context = contextvars.copy_context()
    if not inspect.iscoroutinefunction(function):
        return _Carried(function, context)

    async def carried(*args: Any, **kwargs: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.create_task(function(*args, **kwargs), context=context.copy())

    return cast("Callable[P, R]", carried)


def subprocess_environ(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment (this process's by default) with the current run in it, for a child process.

    A child that uses tracereel joins the run by itself: at its first traced call.

    Example:
        subprocess.run(command, env=subprocess_environ())
    """
    result = dict(os.environ if environ is None else environ)
    with _guard.Guard("inject"):
        found = _headers({"baggage": result.get("BAGGAGE", "")}, identity=True)
        if found:
            for name in _remote.HEADERS:
                result.pop(name.upper(), None)
            for name in _remote.NAMES:
                # What was said to this process is in the baggage now, and newer.
                result.pop(_remote.ENV_PREFIX + name.upper(), None)
            result.update((name.upper(), value) for name, value in found.items())
    return result


def observe_clock(hlc: object) -> None:
    """Move our clock past one that came with a message; one that is far ahead is ignored."""
    if isinstance(hlc, str) and _remote.usable("hlc", hlc):
        recorder = _recorder.active()
        if recorder is not None:
            recorder.observe_clock(hlc)


def read_clock() -> str | None:
    """Our clock, for an answer; null when recording is off."""
    recorder = _recorder.active()
    return None if recorder is None else recorder.clock.tick()


def current_identity() -> RemoteIdentity:
    """The ids of the run that is current here, whether it began here or came from outside."""
    execution, remote = _context.current_execution(), _remote.remote_identity()
    if execution is None:
        return remote or RemoteIdentity()
    said: dict[str, Any] = {
        "trace_id": execution.trace_id,
        "request_id": execution.request_id,
    }
    for name in ("session_id", "user_id"):
        value = getattr(execution, name, None) or getattr(execution.trace, name, None)
        said[name] = value or getattr(remote, name, None)
    return _remote.identity_of(said)


def _headers(carrier: object, *, identity: bool) -> dict[str, str]:
    """The headers to write; nothing when there is nothing to tell."""
    span = _current_span()
    headers: dict[str, str] = {}
    if span is not None:
        headers["traceparent"] = (
            f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
        )
        if span.trace_state:
            headers["tracestate"] = span.trace_state.to_header()
    if identity and (members := _members(span)):
        theirs = _remote.read_baggage(_remote.header_values(carrier, ["baggage"])["baggage"])
        # Ours first: when the limits cut something off, it is not what holds the run together.
        headers["baggage"] = _remote.write_baggage({**members, **_foreign(theirs)})
    return headers


def _members(span: SpanContext | None) -> dict[str, str]:
    found = current_identity()
    members: dict[str, str] = {}
    for name in _remote.NAMES[:-1]:
        value = getattr(found, name)
        if value is not None and not (
            name == "trace_id" and span is not None and value == f"{span.trace_id:032x}"
        ):
            members[_remote.PREFIX + name] = value
    if (span is not None or members) and (clock := read_clock()) is not None:
        members[f"{_remote.PREFIX}hlc"] = clock
    passed_on = {name: str(value) for name, value in baggage.get_all().items()}
    return {**members, **_foreign(passed_on)}


def _foreign(members: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in members.items() if not name.startswith(_remote.PREFIX)}


def _current_span() -> SpanContext | None:
    """The span that sends: the current one, or ours where OpenTelemetry has none for it."""
    current = trace.get_current_span(_remote.parent_context()).get_span_context()
    execution = _context.current_execution()
    if execution is not None:
        own = execution.span.get_span_context()
        if f"{own.span_id:016x}" != execution.span_id and current.span_id == own.span_id:
            # A no-op provider: the events have ids of our own making, so the message gets those.
            trace_id, span_id = int(execution.otel_trace_id, 16), int(execution.span_id, 16)
            sampled = TraceFlags(TraceFlags.SAMPLED)
            return SpanContext(trace_id, span_id, is_remote=False, trace_flags=sampled)
    return current if current.is_valid else None


def _write(carrier: Any, name: str, value: str) -> None:
    if isinstance(carrier, list):
        as_bytes = bool(carrier) and isinstance(carrier[0][0], bytes)
        text = bool(carrier) and isinstance(carrier[0][1], str)
        carrier[:] = [pair for pair in carrier if not _is_named(pair[0], name)]
        carrier.append((name.encode() if as_bytes else name, value if text else value.encode()))
        return
    for key in [key for key in carrier if _is_named(key, name) and key != name]:
        del carrier[key]
    carrier[name] = value


def _is_named(key: object, name: str) -> bool:
    text = key.decode("latin-1") if isinstance(key, bytes) else key
    return isinstance(text, str) and text.lower() == name
