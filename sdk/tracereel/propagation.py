"""Context propagation across headers, threads, executors, subprocesses and message queues.

A message carries the W3C trace context. Its W3C baggage carries the run's ids and clock
(`tracereel.trace_id`, `.request_id`, `.session_id`, `.user_id`, `.hlc`). `inject` writes them into a
message; `extract` makes them current while a message is handled. Calls traced there join the run as
children of the sending span, and their events sort after it even if the clocks disagree.
"""

import asyncio
import contextvars
import inspect
import os
from collections.abc import Callable, Mapping
from contextvars import Token
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

from opentelemetry import baggage, trace
from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, TraceFlags

from tracereel._core import context as _context
from tracereel._core import recorder as _recorder
from tracereel._core import remote_identity
from tracereel._core.context import Execution
from tracereel._core.remote_identity import Incoming, RemoteIdentity
from tracereel._runtime import guard

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

CLOCK_HEADER: Final = "tracereel-hlc"
"""Response header with the server's clock; the client's next events sort after it."""

_NOTHING: Final = Incoming(RemoteIdentity(), None, {})


def inject(carrier: C, *, identity: bool = True) -> C:
    """Write the current trace, ids and clock into message headers; return the carrier.

    The carrier is a mutable mapping of headers, or a list of pairs as in Kafka clients and ASGI. Headers
    of the same names are replaced; other baggage members are kept.

    Args:
        identity: False for receivers outside of your organisation: write only the trace context.
    """
    with guard.Guard("inject"):
        for name, value in _headers(carrier, identity=identity).items():
            _write(carrier, name, value)
    return carrier


def extract(carrier: object) -> "Extraction":
    """Return a context manager that continues the run of these headers; invalid ones are ignored.

    Example:
        with extract(message.headers()):
            handle(message)
    """
    incoming = _NOTHING
    with guard.Guard("extract"):
        incoming = remote_identity.read_carrier(carrier)
    return Extraction(incoming)


class Extraction:
    """Extracted headers as a context manager: current inside, restored at exit.

    `serving` is for servers: each request is a separate run, even without trace headers.
    """

    __slots__ = ("_incoming", "_serving", "_tokens")

    def __init__(self, incoming: Incoming, *, serving: bool = False) -> None:
        self._incoming = incoming
        self._serving = serving
        self._tokens: list[_Tokens] = []

    def __enter__(self) -> RemoteIdentity:
        incoming = self._incoming
        if incoming:
            with guard.Guard("extract"):
                observe_clock(incoming.identity.hlc)
                self._tokens.append(self._attach())
        return incoming.identity

    def __exit__(self, kind: object, error: BaseException | None, tb: object) -> None:
        with guard.Guard("extract"):
            # Several tasks may have entered the same object; tokens fit only their own context. A copy,
            # because other threads may enter and leave meanwhile.
            for tokens in reversed(tuple(self._tokens)):
                if tokens.reset():
                    self._tokens.remove(tokens)
                    return
            if self._tokens:
                self._tokens.pop()

    def _attach(self) -> "_Tokens":
        incoming, base = self._incoming, otel_context.get_current()
        # Keep the current run only if the headers have neither a span nor a trace id.
        leaves = incoming.parent is not None or incoming.identity.trace_id is not None
        if self._serving:
            leaves = True
            around = trace.get_current_span().get_span_context()
            execution = _context.current_execution()
            if execution is not None and f"{around.span_id:016x}" == execution.span_id:
                # A run that started the server: its requests are not part of it.
                base = Context()
            elif incoming.parent and around.trace_id == incoming.parent.trace_id:
                # Another instrumentation already continued the caller's trace: keep its span as parent.
                incoming = Incoming(incoming.identity, None, incoming.members)
        return _Tokens(
            remote_identity.here.set(incoming.identity),
            _context.current.set(None) if leaves else None,
            otel_context.attach(incoming.context(base)),
        )


class _Tokens:
    """Tokens that restore the three context variables, newest first."""

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

    def reset(self) -> bool:
        """Restore the variables; return whether they were set in this context."""
        try:
            remote_identity.here.reset(self._remote)
        except ValueError:
            # Left in another context (a generator closed elsewhere): there is nothing to restore, and
            # OpenTelemetry would log an error.
            return False
        if self._execution is not None:
            _context.current.reset(self._execution)
        otel_context.detach(self._otel)
        return True


class _Carried(Generic[P, R]):
    """Function bound to a context; pickled, it carries headers instead of the context."""

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
        # A copy per call: two threads cannot enter one context at once.
        return self._context.copy().run(self.__wrapped__, *args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        headers = self._headers
        if self._context is not None:
            headers = self._context.copy().run(lambda: inject(dict[str, str]()))
        return _Carried, (self.__wrapped__, None, headers)


def carry(function: Callable[P, R]) -> Callable[P, R]:
    """Bind a function to the current context, for threads, executors, callbacks and process pools.

    The current run is then current in every call of the function. Asyncio tasks and `asyncio.to_thread`
    do this automatically. Coroutine functions are bound too, for `asyncio.run_coroutine_threadsafe`.

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
    """Return an environment that lets a child process join the current run.

    A child that uses tracereel joins the run at its first traced call.

    Args:
        environ: base environment; default `os.environ`.

    Example:
        subprocess.run(command, env=subprocess_environ())
    """
    result = dict(os.environ if environ is None else environ)
    with guard.Guard("inject"):
        found = _headers({"baggage": result.get("BAGGAGE", "")}, identity=True)
        if found:
            for name in remote_identity.HEADERS:
                result.pop(name.upper(), None)
            for name in remote_identity.NAMES:
                # The baggage has newer values than the variables of this process.
                result.pop(remote_identity.ENV_PREFIX + name.upper(), None)
            result.update((name.upper(), value) for name, value in found.items())
    return result


def observe_clock(hlc: object) -> None:
    """Advance the clock past one received in a message; ignore clocks far ahead."""
    if isinstance(hlc, str) and remote_identity.usable("hlc", hlc):
        recorder = _recorder.active()
        if recorder is not None:
            recorder.clock.observe(hlc)


def read_clock() -> str | None:
    """Return the clock value for a response, or `None` if recording is off."""
    recorder = _recorder.active()
    return None if recorder is None else recorder.clock.tick()


def current_identity() -> RemoteIdentity:
    """Return the ids of the current run, local or remote."""
    execution, remote = _context.current_execution(), remote_identity.remote_identity()
    if execution is None:
        return remote or RemoteIdentity()
    fields: dict[str, Any] = {
        "trace_id": execution.trace_id,
        "request_id": execution.request_id,
    }
    for name in ("session_id", "user_id"):
        value = getattr(execution, name, None) or getattr(execution.trace, name, None)
        fields[name] = value or getattr(remote, name, None)
    return remote_identity.identity_of(fields)


def _headers(carrier: object, *, identity: bool) -> dict[str, str]:
    """Return the headers to write; empty without a current run."""
    span = _current_span()
    headers: dict[str, str] = {}
    if span is not None:
        headers["traceparent"] = (
            f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
        )
        if span.trace_state:
            headers["tracestate"] = span.trace_state.to_header()
    if identity and (members := _members(span)):
        theirs = remote_identity.read_baggage(
            remote_identity.header_values(carrier, ["baggage"])["baggage"]
        )
        # Put tracereel's members first, so that the size limits never cut them off.
        headers["baggage"] = remote_identity.write_baggage({**members, **_foreign(theirs)})
    return headers


def _members(span: SpanContext | None) -> dict[str, str]:
    found = current_identity()
    members: dict[str, str] = {}
    for name in remote_identity.NAMES[:-1]:
        value = getattr(found, name)
        if value is not None and not (
            name == "trace_id" and span is not None and value == f"{span.trace_id:032x}"
        ):
            members[remote_identity.PREFIX + name] = value
    if (span is not None or members) and (clock := read_clock()) is not None:
        members[f"{remote_identity.PREFIX}hlc"] = clock
    passed_on = {name: str(value) for name, value in baggage.get_all().items()}
    return {**members, **_foreign(passed_on)}


def _foreign(members: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in members.items()
        if not name.startswith(remote_identity.PREFIX)
    }


def _current_span() -> SpanContext | None:
    """Return the sending span: the current one, or a generated one without a tracer provider."""
    current = trace.get_current_span(remote_identity.parent_context()).get_span_context()
    execution = _context.current_execution()
    if execution is not None:
        own = execution.span.get_span_context()
        if f"{own.span_id:016x}" != execution.span_id and current.span_id == own.span_id:
            # With a no-op provider the events use generated ids, so the message must too.
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
