"""Redaction of received data with the SDK's rules, for senders that do not redact."""

import threading
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from prometheus_client import CollectorRegistry, Counter

from tracereel._redact import rules as redaction
from tracereel._redact.event_redaction import Privacy
from tracereel._redact.secret_patterns import is_sensitive_key
from tracereel_collector.ingest.otlp_values import messages_in

OWNERS: Final = frozenset({"user.id", "enduser.id", "session.id", "langfuse.user.id"})
"""Attributes that name a user or session: hashed as a whole, so that grouping still works."""
_IDENTIFYING: Final = frozenset({"schema_url", "trace_state"})
_HIDDEN: Final = "[redacted:field]"

_privacy: Final = Privacy(redaction.Redaction(), capture_content=True)


def redact_otlp(message: Message) -> bool:
    """Redact an OTLP request in place and return whether anything changed.

    All texts are checked: attributes at any depth, log bodies, names and status messages. Ids and
    numbers stay, except numbers under the name of a secret.
    """
    return _message(message, hide=False)


def _message(message: Message, *, hide: bool) -> bool:
    if message.DESCRIPTOR.name == "KeyValue":
        return _key_value(message, hide=hide)
    changed = False
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for each in messages_in(value):
                changed = _message(each, hide=hide) or changed
        elif field.type == FieldDescriptor.TYPE_STRING:
            if field.name not in _IDENTIFYING:
                changed = _texts(message, field.name, value, hide=hide) or changed
        elif field.name == "bytes_value":
            changed = _bytes(message, value, hide=hide) or changed
        elif hide and field.name in ("int_value", "double_value") and value:
            # A number under the name of a secret, such as a PIN, becomes 0.
            redaction.count("field")
            setattr(message, field.name, 0)
            changed = True
    return changed


def _key_value(pair: Any, *, hide: bool) -> bool:
    key, value = pair.key, pair.value
    if key in OWNERS and value.HasField("string_value"):
        owner = _privacy.owner(value.string_value)
        if owner == value.string_value:
            return False
        value.string_value = owner
        return True
    clean = _privacy.text(key)
    if clean != key:
        pair.key = clean
    return _message(value, hide=hide or is_sensitive_key(key.rpartition(".")[2])) or clean != key


def _texts(message: Message, name: str, value: Any, *, hide: bool) -> bool:
    is_one = isinstance(value, str)
    old = [value] if is_one else list(value)
    new = [_text(each, hide=hide) for each in old]
    if new == old:
        return False
    if is_one:
        setattr(message, name, new[0])
    else:
        value[:] = new
    return True


def _text(value: str, *, hide: bool) -> str:
    if not hide:
        return _privacy.text(value)
    if not value or value == _HIDDEN:
        return value
    redaction.count("field")
    return _HIDDEN


def _bytes(message: Any, value: bytes, *, hide: bool) -> bool:
    try:
        new = _text(value.decode(), hide=hide).encode()
    except UnicodeDecodeError:  # not text, so no rule applies
        new = _HIDDEN.encode() if hide else value
    if new == value:
        return False
    message.bytes_value = new
    return True


class Redactor:
    """Redacts and counts the matches by rule."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._found = Counter(
            "tracereel_redactions_total",
            "Texts hidden at the door, by rule.",
            ["rule"],
            registry=registry,
        )
        self._counted_before: dict[str, int] = {}
        self._lock = threading.Lock()

    def event(self, event: dict[str, Any]) -> bool:
        """Redact a decoded event in place and return whether anything changed."""
        before = dict(event)
        _privacy.clean(event)
        return self._counted(event != before)

    def otlp(self, message: Message) -> bool:
        """Redact an OTLP request in place and return whether anything changed."""
        return self._counted(redact_otlp(message))

    def _counted(self, changed: bool) -> bool:
        if changed:
            # The rules count for the whole process; add the difference to the metric.
            with self._lock:
                for rule, found in redaction.counts.copy().items():
                    self._found.labels(rule).inc(found - self._counted_before.get(rule, 0))
                    self._counted_before[rule] = found
        return changed
