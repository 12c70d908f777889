"""Identity of a remote caller, received with a message or from the parent process.

`tracereel.propagation` writes and publishes it; a root execution reads it. Invalid headers never
raise; they are ignored.

There are two sources: `extract` takes precedence, else the environment set by the parent process
(`TRACEPARENT`, `TRACESTATE`, `BAGGAGE`, and `TRACEREEL_TRACE_ID` … set manually).
"""

import os
import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal
from urllib.parse import quote, unquote

from opentelemetry import baggage, trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

MAX_BAGGAGE_BYTES: Final = 8192
"""Limit for all baggage headers together; a limit per header is not enough (CVE-2026-29181)."""
MAX_BAGGAGE_MEMBERS: Final = 64
MAX_STATE_MEMBERS: Final = 32
MAX_STATE_BYTES: Final = 4096
MAX_ID_LENGTH: Final = 256

HEADERS: Final = ("traceparent", "tracestate", "baggage")
PREFIX: Final = "tracereel."
"""Prefix of tracereel's baggage members, as in `tracereel.request_id`."""
ENV_PREFIX: Final = "TRACEREEL_"

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_TRACE_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_HLC: Final = re.compile(r"[0-9a-f]{16}")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")


@dataclass(frozen=True, slots=True)
class RemoteIdentity:
    """Ids and clock of a run, sent by a remote caller; each may be `None`."""

    trace_id: str | None = None
    """Trace id of the run (`trc_abc`); `None` if it is the OpenTelemetry trace id."""
    request_id: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    hlc: str | None = None
    """Clock of the caller at the time of the call; events here sort after it."""

    def ids(self) -> dict[str, str]:
        """Return the known ids by name."""
        found = {name: getattr(self, name) for name in NAMES if name != "hlc"}
        return {name: value for name, value in found.items() if value is not None}


NAMES: Final = tuple(field.name for field in fields(RemoteIdentity))
PERSON: Final = ("session_id", "user_id")
"""Fields that identify a person; accepted only from trusted senders."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """Data read from one message: identity, calling span and baggage."""

    identity: RemoteIdentity
    parent: SpanContext | None
    members: Mapping[str, str]

    def __bool__(self) -> bool:
        return self.parent is not None or self.identity != RemoteIdentity() or bool(self.members)

    def context(self, base: Context | None) -> Context:
        """Return an OpenTelemetry context with the calling span and the baggage."""
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
    """Return the remote identity for a root execution, or `None`."""
    found = here.get()
    if found is not None or _process is _NOTHING:
        return found
    incoming = _process if isinstance(_process, Incoming) else _read_process()
    return incoming.identity if incoming else None


def parent_context() -> Context | None:
    """Return the parent process's OpenTelemetry context for a root span without a current one.

    `None` means the current context: a current span or an `extract` takes precedence.
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
    """Read the environment once, because a process has only one parent."""
    global _process
    found = from_environment(os.environ)
    _process = found or _NOTHING
    return found


def from_environment(environ: Mapping[str, str]) -> Incoming:
    """Read the parent's context from an environment; `TRACEREEL_*` override the baggage."""
    incoming = read(*([environ.get(name.upper(), "")] for name in HEADERS))
    fields = {name: environ.get(ENV_PREFIX + name.upper(), "") for name in NAMES}
    ours = identity_of(fields)
    merged = {name: getattr(ours, name) or getattr(incoming.identity, name) for name in NAMES}
    return Incoming(RemoteIdentity(**merged), incoming.parent, incoming.members)


def header_values(carrier: object, names: Iterable[str]) -> dict[str, list[str]]:
    """Return the values of headers (lower-case names) in a carrier.

    The carrier is a mapping, a multi-dict or a list of pairs. Names and values may be bytes, values may
    be lists. The `HTTP_*` variables of a WSGI environment count as headers.
    """
    found: dict[str, list[str]] = {name: [] for name in names}
    # The `items` of httpx join repeated headers; its pairs of bytes need not be decoded.
    pairs: Any = getattr(carrier, "raw", None)
    if type(pairs) is not list:
        items = getattr(carrier, "multi_items", None) or getattr(carrier, "items", None)
        pairs = items() if callable(items) else carrier
    if pairs is None or isinstance(pairs, (str, bytes)):
        return found
    for pair in pairs:
        try:
            key, value = pair
        except (TypeError, ValueError):
            continue
        name = (key if type(key) is str else _text(key)).lower().removeprefix("http_")
        if name in found:
            several = value if isinstance(value, (list, tuple)) else [value]
            found[name].extend(_text(one) for one in several)
    return found


def _text(value: object) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("latin-1")  # as in HTTP; every byte is a character
    return value if isinstance(value, str) else ""


def read_carrier(carrier: object) -> Incoming:
    """Parse the headers of a carrier."""
    found = header_values(carrier, HEADERS)
    return read(*(found[name] for name in HEADERS))


def read(
    traceparent: Iterable[str], tracestate: Iterable[str], baggage_headers: Iterable[str]
) -> Incoming:
    """Parse the headers of one message; each may occur several times."""
    parent = _parent(list(filter(None, traceparent)), tracestate)
    members = read_baggage(baggage_headers)
    fields = {name: members.get(PREFIX + name, "") for name in NAMES}
    # The clock belongs to this message only; all other members are forwarded.
    members.pop(f"{PREFIX}hlc", None)
    return Incoming(identity_of(fields), parent, members)


def without_person(incoming: Incoming) -> Incoming:
    """Remove user and session from the identity and from the forwarded baggage."""
    identity = replace(incoming.identity, **dict.fromkeys(PERSON))
    names = {PREFIX + name for name in PERSON}
    members = {name: value for name, value in incoming.members.items() if name not in names}
    return Incoming(identity, incoming.parent, members)


def identity_of(fields: Mapping[str, str]) -> RemoteIdentity:
    """Return an identity with the valid values."""
    return RemoteIdentity(**{n: v for n, v in fields.items() if n in NAMES and usable(n, v)})


def usable(name: str, value: object) -> bool:
    """Return whether a value is valid for this field of an identity."""
    if not isinstance(value, str):
        return False
    if name == "trace_id":
        return _TRACE_ID.fullmatch(value) is not None
    if name == "hlc":
        return _HLC.fullmatch(value) is not None
    return 0 < len(value) <= MAX_ID_LENGTH and value.isprintable()


def _parent(headers: list[str], tracestate: Iterable[str]) -> SpanContext | None:
    if len(headers) != 1:  # repeated headers are ambiguous
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
    """Parse all baggage headers, within the limits; the first member of a name wins."""
    found: dict[str, str] = {}
    left = MAX_BAGGAGE_BYTES
    for header in headers:
        for member in header[: left + 1].split(","):
            # Count characters: headers are ASCII, and other values are rejected below.
            left -= len(member) + 1
            if left < -1 or len(found) >= MAX_BAGGAGE_MEMBERS:
                return found
            name, equals, value = member.partition(";")[0].partition("=")
            name = name.strip(" \t")
            if equals and value.isascii() and _TOKEN.fullmatch(name) and name not in found:
                found[name] = unquote(value.strip(" \t"), errors="replace")
    return found


def write_baggage(members: Mapping[str, str]) -> str:
    """Return a baggage header of these members, in order, within the limits."""
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
