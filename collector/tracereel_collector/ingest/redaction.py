"""Redaction at the door, for senders that do not redact: the SDK's own rules, before anything is kept."""

import threading
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from prometheus_client import CollectorRegistry, Counter

from tracereel import redaction
from tracereel._privacy import Privacy
from tracereel._secrets import is_sensitive_key

OWNERS: Final = frozenset({"user.id", "enduser.id", "session.id", "langfuse.user.id"})
"""Attributes that say whose it is: hashed as a whole where they hold something, so that they group."""
_IDENTIFYING: Final = frozenset({"schema_url", "trace_state"})
_HIDDEN: Final = "[redacted:field]"

_privacy: Final = Privacy(redaction.Redaction(), capture_content=True)


def redact_event(event: dict[str, Any]) -> bool:
    """Clean a decoded event in place; whether anything changed."""
    before = dict(event)
    for name, value in before.items():
        if type(value) is str and value and is_sensitive_key(name) and value != _HIDDEN:
            redaction.count("field")
            event[name] = _HIDDEN
    _privacy.clean(event)
    return event != before


def redact_otlp(message: Message) -> bool:
    """Clean an OTLP request (traces, logs or metrics) in place; whether anything changed.

    Every text in it is looked at: attributes of resources, scopes, records, events and links, to any
    depth, bodies of logs, names, messages of status. Ids and numbers stay, except numbers under the
    name of a secret.
    """
    return _message(message, hide=False)


def _message(message: Message, *, hide: bool) -> bool:
    if message.DESCRIPTOR.name == "KeyValue":
        return _key_value(message, hide=hide)
    changed = False
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            inner = [value] if isinstance(value, Message) else value
            for each in inner:
                changed = _message(each, hide=hide) or changed
        elif field.type == FieldDescriptor.TYPE_STRING:
            if field.name not in _IDENTIFYING:
                changed = _texts(message, field.name, value, hide=hide) or changed
        elif field.name == "bytes_value":
            changed = _bytes(message, value, hide=hide) or changed
        elif hide and field.name in ("int_value", "double_value") and value:
            # A number under the name of a secret (a PIN) keeps its type and loses its value.
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
    if not isinstance(value, str):  # a repeated field
        clean = [_text(each, hide=hide) for each in value]
        if clean == list(value):
            return False
        del value[:]
        value.extend(clean)
        return True
    new = _text(value, hide=hide)
    if new == value:
        return False
    setattr(message, name, new)
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
    except UnicodeDecodeError:  # no text, so nothing that a rule could find
        new = _HIDDEN.encode() if hide else value
    if new == value:
        return False
    message.bytes_value = new
    return True


class Redactor:
    """Redaction that is turned on: cleans, and counts what the rules found."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._found = Counter(
            "tracereel_redactions_total",
            "Texts hidden at the door, by rule.",
            ["rule"],
            registry=registry,
        )
        self._told: dict[str, int] = {}
        self._lock = threading.Lock()

    def event(self, event: dict[str, Any]) -> bool:
        """Clean a decoded event in place; whether anything changed."""
        return self._counted(redact_event(event))

    def otlp(self, message: Message) -> bool:
        """Clean an OTLP request in place; whether anything changed."""
        return self._counted(redact_otlp(message))

    def _counted(self, changed: bool) -> bool:
        if changed:
            # The rules count for the whole process; what is new of it goes into the metric.
            with self._lock:
                for rule, found in redaction.counts.copy().items():
                    self._found.labels(rule).inc(found - self._told.get(rule, 0))
                    self._told[rule] = found
        return changed
