"""The last look at an event before it leaves: content that is not wanted, cut texts, secrets.

One pass over the fields gathers the texts that could hold something; one quick look at all of them
decides whether the exact rules run at all. Nothing of the program's is changed: what is rewritten
is copied.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tracereel import _guard, _values, _written, semconv
from tracereel._layouts import REQUEST_ID, Layouts
from tracereel._secrets import MARK, PATTERNS, is_sensitive_key, mark, suspicious
from tracereel._values import Cut
from tracereel._written import Written
from tracereel.redaction import IDENTITY, REQUIRED, Redaction, count

CONTENT: Final[dict[str, str | None]] = {
    **dict.fromkeys(("input_summary", "output_summary", "error_message"), ""),
    **dict.fromkeys(("user_prompt", "reasoning", "input_at_error", "partial_output"), None),
    **dict.fromkeys(("stack_trace", "input_data", "output_data", "candidates", "chosen"), None),
    **dict.fromkeys(("arguments", "result", "result_summary", "content", "raw", "query"), None),
    **dict.fromkeys(("input_messages", "output_messages", "cache_hit_key"), None),
    **dict.fromkeys(("fallback_output_summary", "degraded_reason"), None),
    **dict.fromkeys(("arguments_text", "tool_error", "citations", "approval"), None),
}
"""Fields that carry what goes in and out of agents → what they are without it."""
ERRORS: Final = ("original_error", "primary_error")
"""Errors as text, `TypeName: message`: without content the name stays."""
LABELS: Final = frozenset(
    {"agent_name", "agent_version", "service", "input_type", "output_type", "llm_provider", "stage"}
    | {"llm_model", "decision_type", "decision_category", "error_type", "error_code", "span_name"}
    | {"error_category", "status", "pipeline_type", "tool_name", "tool_type", "step_name"}
    | {"primary_agent", "fallback_agent", "retry_reason", "retry_strategy", "trigger_reason"}
    | {"llm_model_requested", "operation", "finish_reason", "stop_reason", "stop_reason_raw"}
    | {"message_type", "role", "persistence_strategy", "step_type"}
)
"""Fields with few different values: one that was found clean is remembered."""
OWNERS: Final = ("user_id", "session_id", "request_id")
"""Ids from outside, which may be an e-mail address: hashed as a whole, so that they still group."""

OWNER_ATTRIBUTES: Final = frozenset(
    {semconv.SPAN_USER_ID, semconv.SPAN_SESSION_ID, semconv.SPAN_REQUEST_ID}
    | {semconv.SPAN_CONVERSATION_ID}
)
"""The same on spans."""

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
"""Field of an event → what it is called on spans."""
_NAMES: Final = frozenset(
    {"agent_name", "primary_agent", "fallback_agent", "pipeline_type", "tool_name", "step_name"}
    | {"retrieval_name", "message_type"}
)
_UNTOUCHED: Final = IDENTITY | {"emitter_seq", "trace_seq", "normalized_id"}
_MAX_KNOWN: Final = 4096
_MAX_NODES: Final = 20_000
_MAX_DEPTH: Final = 40
_ERROR_NAME: Final = re.compile(
    r"[A-Za-z_][\w.]*(?:Error|Exception|Timeout|Exit|Warning)(?=[:(]|\Z)"
)
_TRUNCATED: Final = "_truncated"


class Privacy:
    """Cleans the events of one configuration."""

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
        self._layouts = Layouts(LABELS, self._untouched)
        # What the program's own rules are about is data, not its JSON.
        self._reads_written = self.acts or bool(self._own)
        self._shown_actions = {
            shown: self._actions[name]
            for name, attributes in _ATTRIBUTES
            if name in self._actions
            for shown in attributes
        }
        self._names: dict[tuple[str, str], str] = {}
        self._known: set[str] = set()
        self._passed: set[tuple[Any, ...]] = set()
        self._keys: dict[str, bool] = {}
        self._harmless_keys: set[str] = set()

    def clean(self, event: dict[str, Any], trusted: str | None = None) -> None:
        """Make an event fit to leave; the dictionary itself is changed, what is in it is copied.

        A request id that is `trusted`, the same object, is not looked at.
        """
        self.clean_all([event], trusted)

    def clean_all(self, events: list[dict[str, Any]], trusted: str | None = None) -> None:
        """Make events fit to leave that say much the same: texts they share are looked at once."""
        texts: list[str] = []
        labels: list[str] = []
        sensitive = False
        for event in events:
            sensitive = self._gather(event, trusted, texts, labels) or sensitive
        if not self._searches:
            return
        texts += labels
        if not sensitive:
            if len(events) > 1:
                texts = list(dict.fromkeys(texts))
            if not self._own and not suspicious("\n".join(texts)):
                self._remember(labels)
                return
            if not any(self._differs(text) for text in texts):
                self._remember(labels)
                return
        untouched = self._untouched
        for event in events:
            _written.read_all(event)
            for name, value in list(event.items()):
                if name not in untouched and value is not trusted:
                    event[name] = self._field(name, value)

    def _gather(
        self, event: dict[str, Any], trusted: str | None, texts: list[str], labels: list[str]
    ) -> bool:
        """Do what can be done without a search, and find its texts; whether a key is sensitive."""
        if not self.captures:
            strip_content(event)
        if self._reads_written:
            _written.read_all(event)
        if self.acts:
            self.act(event)
        layout = self._layouts.of(event)
        said, known = layout.labels(event), self._known
        if not known.issuperset(said):
            labels += [each for each in said if each not in known and not self._is_clean(each)]
        texts += layout.texts(event)
        if layout.has_request_id and (request_id := event[REQUEST_ID]) is not trusted:
            texts.append(request_id)
        return self._unfold(event, layout.others, texts) if layout.others else False

    def finds_nothing(self, texts: list[str], keys: list[str]) -> bool:
        """Whether a quick look at all texts and keys of some data finds nothing that could be hidden."""
        if not self._searches:
            return True
        return not self._own and not suspicious("\n".join(texts)) and not self._any_key(keys)

    def passes(
        self,
        about: tuple[Any, ...],
        labels_of: Callable[..., tuple[str, ...]],
        texts: list[str],
        keys: Sequence[str],
    ) -> bool:
        """Whether an event may leave as it is of which this is all; false where a closer look decides.

        Its labels are worked out once for everything that is alike in what they are `about`.
        """
        if not self.captures or self._reads_written:
            return False
        if not self._searches:
            return True
        if about not in self._passed:
            if not self._known.issuperset(labels_of(self, *about)):
                return False
            if len(self._passed) >= _MAX_KNOWN:
                self._passed.clear()
            self._passed.add(about)
        return not suspicious("\n".join(texts)) and not self._any_key(keys)

    def suspects(self, text: bytes) -> bool:
        """Whether the JSON text of some data may hold something to hide; keys are not looked at.

        What is escaped in it may look different, so it counts.
        """
        if not self._searches:
            return False
        return bool(self._own) or b"\\" in text or suspicious(text.decode())

    def _any_key(self, keys: Sequence[str]) -> bool:
        harmless = self._harmless_keys
        if harmless.issuperset(keys):
            return False
        if any(is_sensitive_key(key) or suspicious(key) for key in keys):
            return True
        if len(harmless) >= _MAX_KNOWN:
            harmless.clear()
        harmless.update(keys)
        return False

    def payload(self, data: Any) -> tuple[Any, bool]:
        """Plain data without what the rules hide, and whether there was anything of that."""
        if not self._searches:
            return data, False
        walk = _Walk(self._keys)
        if (
            walk.visit(data, _MAX_DEPTH)
            and not walk.sensitive
            and not self._own
            and not suspicious("\n".join(walk.texts))
        ):
            return data, False
        new = self._rewritten(data)
        return new, new != data

    def text(self, value: str) -> str:
        """A text without what the rules hide; never much longer than it was."""
        if value in self._known or not self._searches:
            return value
        new = value
        for pattern in self._own:
            new = pattern.apply(new, count)
        if self._built_in and suspicious(new):
            for pattern in PATTERNS:
                new = pattern.apply(new, count)
        # Marks may be longer than what they hide; limits of the contract hold all the same.
        return new if len(new) <= len(value) else new[: max(len(value), 64)]

    def shown(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Fields of an event as the event will have them, for a span that begins before it."""
        event = dict(fields)
        try:
            self.clean(event)
        except Exception as error:  # noqa: BLE001 - names pass, as they do in the event itself
            _guard.report("redaction", error)
            return dict(fields)
        return event

    def name(self, field: str, value: str) -> str:
        """One such field with a name in it, remembered."""
        found = self._names.get((field, value))
        if found is None:
            if len(self._names) >= _MAX_KNOWN:
                self._names.clear()
            found = self._names[field, value] = str(self.shown({field: value})[field])
        return found

    def values(self, found: dict[str, Any]) -> dict[str, Any]:
        """Attributes of a span or of an event on it, cleaned; those unchanged as they were."""
        if self._shown_actions:
            found = self._acted(found)
        for name, value in found.items():
            if type(value) is str and value not in self._known:
                if self._differs(value):
                    return {
                        key: self._attribute(key, each) if issubclass(type(each), str) else each
                        for key, each in found.items()
                    }
                self._remember([value])
            elif name and issubclass(type(value), Cut):
                return {key: _exact(each) for key, each in self.values(_uncut(found)).items()}
        return found

    @property
    def hides_by_name(self) -> bool:
        """Whether a value is hidden because its name says that it is a secret."""
        return self._built_in

    def _attribute(self, key: str, value: str) -> str:
        return self.owner(value) if key in OWNER_ATTRIBUTES else self.text(value)

    def _acted(self, found: dict[str, Any]) -> dict[str, Any]:
        """Attributes without those of fields to drop, and with the hash of those to hash."""
        acted: dict[str, Any] = {}
        for key, value in found.items():
            action = self._shown_actions.get(key)
            if action is None:
                acted[key] = value
            elif action == "hash" and issubclass(type(value), str):
                acted[key] = hashed(value)
        return acted

    def owner(self, value: str) -> str:
        """An id from outside: itself, or its hash where it holds something to hide."""
        if value in self._known:
            return value
        if self.text(value) != value:
            return hashed(value)
        self._remember([value])
        return value

    def owner_field(self, name: str, value: str) -> str:
        """The same, unless the program has a wish of its own for that field."""
        if name in self._untouched:
            return value
        action = self._actions.get(name)
        if action is None:
            return self.owner(value)
        count(f"field_{action}")
        return hashed(value) if action == "hash" else ""

    def _differs(self, text: str) -> bool:
        if any(pattern.pattern.search(text) is not None for pattern in self._own):
            return True
        return self._built_in and suspicious(text)

    def _is_clean(self, label: str) -> bool:
        """Whether a label only looks as if it held something, by every rule; remembered if so.

        The date in a model's name has as many digits as an account.
        """
        if not self._searches or len(label) > _values.SHORT_LIMIT or not self._differs(label):
            return False
        new = label
        for pattern in (*self._own, *(PATTERNS if self._built_in else ())):
            new = pattern.apply(new, _uncounted)
        if new == label:
            self._remember([label])
        return new == label

    def _remember(self, labels: list[str]) -> None:
        if labels:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known.update(label for label in labels if len(label) <= _values.SHORT_LIMIT)

    def act(self, event: dict[str, Any]) -> None:
        """Drop or hash the fields that the program wants dropped or hashed."""
        for name, action in self._actions.items():
            value = event.get(name)
            if value is not None:
                count(f"field_{action}")
                event[name] = _dropped(name, value) if action == "drop" else _hashed(value)

    def _unfold(self, event: dict[str, Any], names: tuple[str, ...], texts: list[str]) -> bool:
        """Make plain data of what is not text or number; whether a key in it is sensitive."""
        sensitive = False
        for name in names:
            value = event[name]
            if type(value) is Cut:
                event[name] = _exact(value)
                event[name + _TRUNCATED] = value.about
                texts.append(event[name])
                continue
            if type(value) is Written:
                event[name] = value.raw
                if name in self._untouched:
                    continue
                if value.texts is not None:
                    texts += value.texts
                    sensitive = self._any_key(value.keys) or sensitive
                    continue
                value = _written.read_all(event)[name]
            walk = _Walk(self._keys)
            if not walk.visit(value, _MAX_DEPTH):
                event[name] = _values.plain(value)
                walk = _Walk(self._keys)
                walk.visit(event[name], _MAX_DEPTH)
            if name not in self._untouched:
                texts.extend(walk.texts)
                sensitive = sensitive or walk.sensitive
        return sensitive

    def _field(self, name: str, value: Any) -> Any:
        if type(value) is str:
            if name in OWNERS:
                return self.owner(value)
            if is_sensitive_key(name):
                return self._hidden(value)
        return self._rewritten(value)

    def _rewritten(self, value: Any, *, hide: bool = False) -> Any:
        kind = type(value)
        if kind is str:
            return self._hidden(value) if hide else self.text(value)
        if kind is dict:
            new: dict[str, Any] = {}
            for key, item in value.items():
                name = self.text(key)
                while name in new:
                    name += "'"
                hidden = hide or (self._built_in and is_sensitive_key(key))
                new[name] = self._rewritten(item, hide=hidden)
            return new
        if kind is list:
            return [self._rewritten(item, hide=hide) for item in value]
        # A number under the name of a secret (a PIN) keeps its type and loses its value.
        return 0 if hide and (kind is int or kind is float) else value

    def _hidden(self, value: str) -> str:
        if not value or (value.startswith(MARK) and value.endswith("]")):
            return value
        count("field")
        return mark("field")


class _Walk:
    """Gathers the texts of nested data; gives up on what is not plain, too deep or too much."""

    def __init__(self, keys: dict[str, bool]) -> None:
        self.texts: list[str] = []
        self.sensitive = False
        self._keys = keys
        self._left = _MAX_NODES

    def visit(self, value: Any, depth: int) -> bool:
        kind = type(value)
        if kind is str:
            self.texts.append(value)
            return True
        if value is None or kind is int or kind is float or kind is bool:
            return True
        if depth <= 0 or not (kind is list or kind is dict):
            return False
        self._left -= 1
        if self._left <= 0 or (kind is dict and not self._take_keys(value)):
            return False
        add = self.texts.append
        for item in value if kind is list else value.values():
            kind = type(item)
            if kind is str:
                add(item)
            elif kind is list or kind is dict:
                if not self.visit(item, depth - 1):
                    return False
            elif item is not None and not (kind is int or kind is float or kind is bool):
                return False
        return True

    def _take_keys(self, keys: Iterable[Any]) -> bool:
        known = self._keys
        for key in keys:
            if type(key) is not str:
                return False
            found = known.get(key)
            if found is None:
                if len(known) >= _MAX_KNOWN:
                    known.clear()
                found = known[key] = is_sensitive_key(key) or suspicious(key)
            if found:
                self.sensitive = True
        return True


def strip_content(event: dict[str, Any]) -> None:
    """Empty the fields that carry content, keeping the event valid."""
    for name in CONTENT.keys() & event.keys():
        event[name] = CONTENT[name]
    for name in ERRORS:
        if name in event:
            event[name] = error_name(event[name])


def error_name(text: Any) -> str:
    """The type name an error's text begins with, if it does."""
    found = _ERROR_NAME.match(text) if issubclass(type(text), str) else None
    return found.group() if found is not None else ""


def hashed(value: str) -> str:
    """A stable stand-in for a text."""
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


def _uncounted(_rule: str) -> None:
    """Nothing is hidden, only looked for."""


def _exact(value: Any) -> Any:
    return str.__str__(value[:]) if type(value) is Cut else value


def _uncut(found: dict[str, Any]) -> dict[str, Any]:
    return {name: _exact(value) for name, value in found.items()}


assert not IDENTITY & REQUIRED  # noqa: S101 - the two tables speak of different fields
