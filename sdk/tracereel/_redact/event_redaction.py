"""Redaction of events before export: content, truncated texts, secrets.

A cheap check runs on every text; the exact rules run only on suspicious ones. The program's own
data is never changed: redacted values are copies.
"""

import hashlib
import re
import sys
from collections.abc import Sequence
from typing import Any, Final

from tracereel import semconv
from tracereel._redact import values as _values
from tracereel._redact.plain_data import NotPlainError, Pairs, Walk
from tracereel._redact.rules import IDENTITY, REQUIRED, Redaction, count
from tracereel._redact.secret_patterns import PATTERNS, is_sensitive_key, mark, suspicious
from tracereel._redact.text_limits import distinct
from tracereel._redact.values import Cut
from tracereel._runtime import guard

CONTENT: Final[dict[str, str | None]] = {
    **dict.fromkeys(("input_summary", "output_summary", "error_message"), ""),
    **dict.fromkeys(("user_prompt", "reasoning", "input_at_error", "partial_output"), None),
    **dict.fromkeys(("stack_trace", "input_data", "output_data", "candidates", "chosen"), None),
    **dict.fromkeys(("arguments", "result", "result_summary", "content", "raw", "query"), None),
    **dict.fromkeys(("input_messages", "output_messages", "cache_hit_key"), None),
    **dict.fromkeys(("fallback_output_summary", "degraded_reason"), None),
    **dict.fromkeys(("arguments_text", "tool_error", "citations", "approval"), None),
    **dict.fromkeys(("input", "output", "tool_definitions", "request_parameters"), None),
}
"""Fields with inputs and outputs of agents → their values without content."""
ERRORS: Final = ("original_error", "primary_error")
"""Fields with errors as text, `TypeName: message`; without content only the name is kept."""
COPIED: Final = frozenset(semconv.CONTENT_FIELDS) - {"documents"}
"""Content that scopes copy with `ContentCopies`."""
OWNERS: Final = ("user_id", "session_id", "request_id")
"""External ids, maybe e-mail addresses: hashed as a whole to keep grouping."""

_HASHED: Final = re.compile(r"sha256:[0-9a-f]{16}")

OWNER_ATTRIBUTES: Final = frozenset(
    {semconv.SPAN_USER_ID, semconv.SPAN_SESSION_ID, semconv.SPAN_REQUEST_ID}
    | {semconv.SPAN_CONVERSATION_ID}
)
"""Span attributes of these ids."""

_ATTRIBUTES: Final = (
    *semconv.SPAN_ATTRIBUTES.items(),
    ("user_id", (semconv.SPAN_USER_ID,)),
    ("session_id", (semconv.SPAN_SESSION_ID, semconv.SPAN_CONVERSATION_ID)),
    *(
        (field, (shown,))
        for _, fields in semconv.SPAN_EVENTS.values()
        for field, shown in fields.items()
    ),
)
"""Pairs of event field and its span attributes."""
_NAMES: Final = frozenset(
    {"agent_name", "primary_agent", "fallback_agent", "pipeline_type", "tool_name", "step_name"}
    | {"retrieval_name", "message_type"}
)
_LENGTHS: Final = {
    **dict.fromkeys(_NAMES, _values.SHORT_LIMIT),
    **dict.fromkeys(("input_summary", "output_summary", "result_summary"), semconv.SUMMARY_LIMIT),
    "fallback_output_summary": semconv.SUMMARY_LIMIT,
}
"""Maximum lengths in the contract."""
_SHORTEST: Final = 5
"""Characters of the shortest text in which a built-in rule finds something: `pwd=x`."""
_UNTOUCHED: Final = IDENTITY | {"emitter_seq", "trace_seq", "normalized_id"}
_MAX_KNOWN: Final = 2048
_LONGEST_KNOWN: Final = 1024
"""Characters of the longest text that is remembered: labels, messages of a conversation."""
_MAX_NODES: Final = 1_000_000
_MAX_DEPTH: Final = 40
_PAYLOAD_DEPTH: Final = 256
"""Maximum depth of tape data: 64 codec levels of up to three containers."""
_ERROR_NAME: Final = re.compile(
    r"[A-Za-z_][\w.]*(?:Error|Exception|Timeout|Exit|Warning)(?=[:(]|\Z)"
)
_CLASS_NAME: Final = re.compile(r"[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)*+(?=:)")
_MARK: Final = re.compile(r"\[redacted:[A-Za-z0-9_.-]{1,64}\]")
"""Pattern of a text that is already a redaction mark."""
_TRUNCATED: Final = "_truncated"


class Privacy:
    """Redaction of events for one configuration."""

    def __init__(self, redaction: Redaction, *, capture_content: bool) -> None:
        self.captures = capture_content
        self._own = redaction.patterns()
        self._built_in = redaction.built_in
        self._searches = bool(self._own) or self._built_in
        self._actions = {
            name: action for name, action in redaction.fields.items() if action != "keep"
        }
        self.acts = bool(self._actions)
        kept = {name for name, action in redaction.fields.items() if action == "keep"}
        self._untouched = _UNTOUCHED | kept
        self._shown_actions = {
            shown: self._actions[name]
            for name, attributes in _ATTRIBUTES
            if name in self._actions
            for shown in attributes
        }
        self.redacts_copies = not any(name in redaction.fields for name in COPIED)
        """Whether copies of content are redacted while they are made, and not again."""
        self._untouched_or_copied = self._untouched | COPIED
        self._names: dict[tuple[str, str], str] = {}
        self._known: set[str] = set()
        """Texts that are clean."""
        self.open_keys: set[str] = set()
        """Keys that are clean and name no secret."""

    def clean(
        self,
        event: dict[str, Any],
        trusted: str | None = None,
        copied_by: "Privacy | None" = None,
    ) -> None:
        """Redact an event in place; its values are copied.

        The text object `trusted` is skipped, and so is content that `copied_by` has redacted.
        """
        skips = copied_by is self and self.redacts_copies
        if not self.captures:
            strip_content(event)
        if self.acts:
            self.act(event)
        known, keys = self._known, self.open_keys
        untouched = self._untouched_or_copied if skips else self._untouched
        for name, value in list(event.items()):
            if value is None:
                continue
            kind = type(value)
            if kind is str:
                if (value in known and name in keys) or value is trusted:
                    continue
            elif kind is int or kind is float or kind is bool:
                continue
            elif kind is Cut:
                event[name + _TRUNCATED] = value.about
                event[name] = value = _exact(value)
            if name not in untouched:
                event[name] = self._field(name, value)

    def payload(self, data: Any) -> tuple[Any, bool]:
        """Return redacted plain data, and whether anything was redacted."""
        if not self._searches:
            return data, False
        new = _Redacted(self, sys.maxsize).visit(data, _PAYLOAD_DEPTH)
        return new, new != data

    def text(self, value: str) -> str:
        """Return a redacted text; marks may make it longer."""
        if value in self._known or not self._searches:
            return value
        if len(value) < _SHORTEST and not self._own:
            return value
        new = value
        for own in self._own:
            new = own.apply(new, count)
        if self._built_in and suspicious(new):
            for pattern in PATTERNS:
                new = pattern.apply(new, count)
        if new == value and len(value) <= _LONGEST_KNOWN:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known.add(value)
        return new

    def hidden(self, value: str) -> str:
        """Return the mark for a text whose key names a secret."""
        if not value or _MARK.fullmatch(value) is not None:
            return value
        count("field")
        return mark("field")

    def key(self, key: str) -> tuple[str, bool]:
        """Return a redacted key, and whether its values are hidden."""
        if key in self.open_keys:
            return key, False
        new, hides = self.text(key), self._built_in and is_sensitive_key(key)
        if new == key and not hides and len(key) <= _values.SHORT_LIMIT:
            if len(self.open_keys) >= _MAX_KNOWN:
                self.open_keys.clear()
            self.open_keys.add(key)
        return new, hides

    def shown(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return fields redacted as in the event, for a span that starts before the event."""
        event = dict(fields)
        try:
            self.clean(event)
        except Exception as error:  # noqa: BLE001 - names are kept, as in the event
            guard.report("redaction", error)
            return dict(fields)
        return event

    def name(self, field: str, value: str) -> str:
        """Return one redacted name field, cached."""
        found = self._names.get((field, value))
        if found is None:
            if len(self._names) >= _MAX_KNOWN:
                self._names.clear()
            found = self._names[field, value] = str(self.shown({field: value})[field])
        return found

    def values(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return redacted attributes of a span or span event."""
        if self._shown_actions:
            found = self._acted(found)
        return {
            key: self._attribute(key, _exact(each)) if issubclass(type(each), str) else each
            for key, each in found.items()
        }

    @property
    def hides_by_name(self) -> bool:
        """Whether values are hidden because their key names a secret."""
        return self._built_in

    def _attribute(self, key: str, value: str) -> str:
        return self.owner(value) if key in OWNER_ATTRIBUTES else self.text(value)

    def _acted(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return attributes with the configured drop and hash actions applied."""
        acted: dict[str, Any] = {}
        for key, value in found.items():
            action = self._shown_actions.get(key)
            if action is None:
                acted[key] = value
            elif action == "hash" and issubclass(type(value), str):
                acted[key] = hashed(value)
        return acted

    def owner(self, value: str) -> str:
        """Return an external id, or its hash if it holds a secret."""
        return value if self.text(value) == value else hashed(value)

    def owner_field(self, name: str, value: str) -> str:
        """Return an external id after the configured action for its field, if any."""
        if name in self._untouched:
            return value
        action = self._actions.get(name)
        if action is None:
            return self.owner(value)
        count(f"field_{action}")
        return hashed(value) if action == "hash" else ""

    def act(self, event: dict[str, Any]) -> None:
        """Apply the configured drop and hash actions to fields."""
        for name, action in self._actions.items():
            value = event.get(name)
            if value is not None:
                count(f"field_{action}")
                event[name] = _dropped(name, value) if action == "drop" else _hashed(value)

    def _field(self, name: str, value: Any) -> Any:
        if type(value) is str:
            if name in OWNERS:
                return self.owner(value)
            if self.key(name)[1]:
                return self.hidden(value)
            new = self.text(value)
            if len(new) > len(value) and name in _LENGTHS:  # a mark is longer than the secret
                return new[: max(_LENGTHS[name], len(value))]
            return new
        try:
            return _Redacted(self, _MAX_NODES).visit(value, _MAX_DEPTH)
        except NotPlainError:
            convert = _values.converted if name in semconv.CONTENT_FIELDS else _values.plain
            return _Redacted(self, _MAX_NODES).visit(convert(value), _MAX_DEPTH)


class _Redacted(Walk[Any]):
    """Redacting copy of plain data."""

    def __init__(self, privacy: Privacy, nodes: int) -> None:
        super().__init__(nodes)
        self._privacy = privacy
        self._hide = False
        """Whether an enclosing key names a secret."""

    def text(self, value: str) -> Any:
        if type(value) is not str:
            raise NotPlainError
        return self._privacy.hidden(value) if self._hide else self._privacy.text(value)

    def scalar(self, value: Any, kind: type) -> Any:
        if kind is int or kind is float:
            # A number under a secret key (a PIN) becomes 0, so that its type stays.
            return 0 if self._hide else value
        if value is None or kind is bool:
            return value
        raise NotPlainError

    def mapping(self, value: Any, pairs: Pairs, length: int, depth: int) -> Any:
        if type(value) is not dict or len(pairs) < length:
            raise NotPlainError
        privacy, outer = self._privacy, self._hide
        new: dict[str, Any] = {}
        numbers: dict[str, int] = {}
        for key, item in pairs:
            if type(key) is not str:
                raise NotPlainError
            name, hides = privacy.key(key)
            if name in new:
                name = distinct(name, new, numbers)
            self._hide = hides = outer or hides
            if type(item) is str and not hides:  # the most frequent case
                self.nodes -= 1
                new[name] = privacy.text(item)
            else:
                new[name] = self.visit(item, depth)
        self._hide = outer
        return new

    def sequence(self, value: Any, items: Sequence[Any], length: int, depth: int) -> Any:
        if type(value) is not list or len(items) < length:
            raise NotPlainError
        return [self.visit(item, depth) for item in items]


def strip_content(event: dict[str, Any]) -> None:
    """Clear the fields that carry content, keeping the event valid."""
    for name in CONTENT.keys() & event.keys():
        event[name] = CONTENT[name]
    for name in ERRORS:
        if name in event:
            event[name] = error_name(event[name])


def error_name(text: Any) -> str:
    """Return the type name at the start of an error text, or an empty string."""
    found = _ERROR_NAME.match(text) if issubclass(type(text), str) else None
    return found.group() if found is not None else ""


def class_name(text: str) -> str:
    """Return the class name at the start of a status description, or an empty string.

    Any dotted identifier before a colon is one; a text that is only a name must look like an
    error's, because it may as well be content.
    """
    found = _CLASS_NAME.match(text)
    return found.group() if found is not None else error_name(text)


def owner_forms(value: str) -> tuple[str, ...]:
    """Return the forms in which the id of a user or session may be stored: as it is, and hashed."""
    return (value, hashed(value))


def owner_key(value: str) -> str:
    """Return the same key for both forms of the id of a user or session."""
    return value if _HASHED.fullmatch(value) else hashed(value)


def hashed(value: str) -> str:
    """Return a stable hash that replaces a text."""
    return f"sha256:{hashlib.sha256(value.encode('utf-8', 'replace')).hexdigest()[:16]}"


def _dropped(name: str, value: Any) -> Any:
    if name in _NAMES:
        return "[dropped]"
    return "" if issubclass(type(value), str) else None


def _hashed(value: Any) -> Any:
    if issubclass(type(value), str):
        return hashed(value)
    plain = _values.plain(value)
    digest = hashed(_values.encode({"value": plain}).decode())
    if isinstance(plain, dict):
        return {"hash": digest}
    return [digest] if isinstance(plain, list) else None


def _exact(value: Any) -> Any:
    return str.__str__(value[:]) if type(value) is Cut else value


assert not IDENTITY & REQUIRED  # noqa: S101 - the two tables must not overlap
