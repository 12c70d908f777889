"""Who called us from outside: the identity that came with a message or with this process.

`tracereel.propagation` writes and offers it; a root execution reads it. Nothing here raises for the
sake of what a header says: what cannot be read is as if it were not there.

Two sources, the nearer wins: what `extract` made current here, else what the parent process left in
the environment (`TRACEPARENT`, `TRACESTATE`, `BAGGAGE`, and `TRACEREEL_TRACE_ID` … set by hand).
"""

import os
import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any, Final, Literal
from urllib.parse import quote, unquote

from opentelemetry import baggage, trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

MAX_BAGGAGE_BYTES: Final = 8192
"""Of all baggage headers together: a sum, since a limit per header is none (CVE-2026-29181)."""
MAX_BAGGAGE_MEMBERS: Final = 64
MAX_STATE_MEMBERS: Final = 32
MAX_STATE_BYTES: Final = 4096
MAX_ID_LENGTH: Final = 256

HEADERS: Final = ("traceparent", "tracestate", "baggage")
PREFIX: Final = "tracereel."
"""Of our members in the baggage: `tracereel.request_id` …"""
ENV_PREFIX: Final = "TRACEREEL_"

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_TRACE_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_HLC: Final = re.compile(r"[0-9a-f]{16}")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")


@dataclass(frozen=True, slots=True)
class RemoteIdentity:
    """What a caller in another process says of the run we are part of; each null when not said."""

    trace_id: str | None = None
    """The run's own trace id (`trc_abc`); null where it is simply that of the OpenTelemetry trace."""
    request_id: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    hlc: str | None = None
    """The caller's clock when it called; events here must come after it."""


NAMES: Final = tuple(field.name for field in fields(RemoteIdentity))


@dataclass(frozen=True, slots=True)
class Incoming:
    """Everything read from one message: identity, the span that called, the user's own baggage."""

    identity: RemoteIdentity
    parent: SpanContext | None
    members: Mapping[str, str]

    def __bool__(self) -> bool:
        return self.parent is not None or self.identity != RemoteIdentity() or bool(self.members)

    def context(self, base: Context | None) -> Context:
        """An OpenTelemetry context with the calling span and the baggage in it."""
        context = Context() if base is None else base
        if self.parent is not None:
            context = trace.set_span_in_context(NonRecordingSpan(self.parent), context)
        for name, value in self.members.items():
            context = baggage.set_baggage(name, value, context)
        return context


here: ContextVar[RemoteIdentity | None] = ContextVar("tracereel_remote", default=None)
_NOTHING: Final = Incoming(RemoteIdentity(), None, {})
_process: Incoming | Literal["unread"] = "unread"


def remote_identity() -> RemoteIdentity | None:
    """The identity to adopt for a root execution that begins here; null when nobody called us."""
    found = here.get()
    if found is not None or _process is _NOTHING:
        return found
    incoming = _process if isinstance(_process, Incoming) else _read_process()
    return incoming.identity if incoming else None


def parent_context() -> Context | None:
    """The OpenTelemetry context for a root span where none is current: the parent process's.

    Null means the current context, as OpenTelemetry does it: a span or an `extract` is nearer.
    """
    if _process is _NOTHING:
        return None
    incoming = _process if isinstance(_process, Incoming) else _read_process()
    if incoming.parent is None or here.get() is not None:
        return None
    if trace.get_current_span().get_span_context().is_valid:
        return None
    return incoming.context(None)


def _read_process() -> Incoming:
    """What the environment says, once: a process has one parent."""
    global _process
    found = from_environment(os.environ)
    _process = found or _NOTHING
    return found


def from_environment(environ: Mapping[str, str]) -> Incoming:
    """What a parent process left in the environment; our own variables win over its baggage."""
    incoming = read(*([environ.get(name.upper(), "")] for name in HEADERS))
    said = {name: environ.get(ENV_PREFIX + name.upper(), "") for name in NAMES}
    ours = identity_of(said)
    merged = {name: getattr(ours, name) or getattr(incoming.identity, name) for name in NAMES}
    return Incoming(RemoteIdentity(**merged), incoming.parent, incoming.members)


def header_values(carrier: object, names: Iterable[str]) -> dict[str, list[str]]:
    """The values of some headers (names in lower case) in anything that holds headers.

    Mappings, multi-dicts and lists of pairs will do; names and values may be bytes, values lists.
    A WSGI environment has its headers as `HTTP_*`: those count too.
    """
    found: dict[str, list[str]] = {name: [] for name in names}
    items = getattr(carrier, "items", None)
    pairs: Any = items() if callable(items) else carrier
    if pairs is None or isinstance(pairs, (str, bytes)):
        return found
    for pair in pairs:
        try:
            key, value = pair
        except (TypeError, ValueError):
            continue
        name = _text(key).lower().removeprefix("http_")
        if name in found:
            several = value if isinstance(value, (list, tuple)) else [value]
            found[name].extend(_text(one) for one in several)
    return found


def _text(value: object) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("latin-1")  # as HTTP has it; every byte is a character
    return value if isinstance(value, str) else ""


def read_carrier(carrier: object) -> Incoming:
    """What the headers in a carrier say."""
    found = header_values(carrier, HEADERS)
    return read(*(found[name] for name in HEADERS))


def read(
    traceparent: Iterable[str], tracestate: Iterable[str], baggage_headers: Iterable[str]
) -> Incoming:
    """What the headers of one message say, each header as often as it was sent."""
    parent = _parent(list(filter(None, traceparent)), tracestate)
    members = read_baggage(baggage_headers)
    said = {name: members.get(PREFIX + name, "") for name in NAMES}
    # The clock is of this one message; everything else is passed on as it came.
    members.pop(f"{PREFIX}hlc", None)
    return Incoming(identity_of(said), parent, members)


def identity_of(said: Mapping[str, str]) -> RemoteIdentity:
    """An identity of the values that are usable."""
    return RemoteIdentity(**{n: v for n, v in said.items() if n in NAMES and usable(n, v)})


def usable(name: str, value: object) -> bool:
    """Whether a value may stand for this part of an identity."""
    if not isinstance(value, str):
        return False
    if name == "trace_id":
        return _TRACE_ID.fullmatch(value) is not None
    if name == "hlc":
        return _HLC.fullmatch(value) is not None
    return 0 < len(value) <= MAX_ID_LENGTH and value.isprintable()


def _parent(headers: list[str], tracestate: Iterable[str]) -> SpanContext | None:
    if len(headers) != 1:  # sent twice is as good as not sent: nobody knows which one is meant
        return None
    match = _TRACEPARENT.fullmatch(headers[0].strip(" \t"))
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == "ff" or (version == "00" and more is not None):
        return None
    context = SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(flags, 16)),
        trace_state=_state(tracestate),
    )
    return context if context.is_valid else None


def _state(headers: Iterable[str]) -> TraceState:
    whole = ",".join(headers)[:MAX_STATE_BYTES]
    members = [member.strip(" \t") for member in whole.split(",")]
    return TraceState.from_header([",".join(list(filter(None, members))[:MAX_STATE_MEMBERS])])


def read_baggage(headers: Iterable[str]) -> dict[str, str]:
    """The members of all baggage headers, within the limits; later ones of a name are ignored."""
    found: dict[str, str] = {}
    left = MAX_BAGGAGE_BYTES
    for header in headers:
        for member in header[: left + 1].split(","):
            # Counted in characters: a header is ASCII, and what is not is refused below.
            left -= len(member) + 1
            if left < -1 or len(found) >= MAX_BAGGAGE_MEMBERS:
                return found
            name, equals, value = member.partition(";")[0].partition("=")
            name = name.strip(" \t")
            if equals and value.isascii() and _TOKEN.fullmatch(name) and name not in found:
                found[name] = unquote(value.strip(" \t"), errors="replace")
    return found


def write_baggage(members: Mapping[str, str]) -> str:
    """A baggage header of these members, in this order, as many as the limits allow."""
    parts: list[str] = []
    size = -1
    for name, value in members.items():
        if not _TOKEN.fullmatch(name):
            continue
        part = f"{name}={quote(value, safe='!#$&()*+-./:<=>?@[]^_`{|}~', errors='replace')}"
        if len(parts) < MAX_BAGGAGE_MEMBERS and size + len(part) + 1 <= MAX_BAGGAGE_BYTES:
            parts.append(part)
            size += len(part) + 1
    return ",".join(parts)
