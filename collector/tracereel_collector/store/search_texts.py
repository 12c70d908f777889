"""SQL of the texts for full-text search: contents of events, spans and log records.

It runs in every insert, so it must not throw. The names of attributes are those that the content of a step
is read from (`dialects/content.py`): what the page shows is found.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from tracereel_collector.store.dialects.content import (
    ANSWER_CALLS,
    ANSWER_TEXT,
    ANSWER_THINKING,
    ARGUMENTS,
    BOTH,
    DOCUMENTS,
    INPUT,
    OTHER_ARGUMENTS,
    OTHER_INPUT,
    OTHER_OUTPUT,
    OTHER_RESULT,
    OTHER_WHOLE_INPUT,
    OTHER_WHOLE_OUTPUT,
    OUTPUT,
    RESULT,
    SYSTEM,
    WHOLE_INPUT,
    WHOLE_OUTPUT,
    Numbered,
)

MAX_TEXT: Final = 16_000
"""Maximum bytes of text that are indexed per event, or per attribute of a span."""
_MAX_BEGINNING: Final = 2_000
"""Maximum bytes of the beginning of a conversation or input that are indexed with each call."""
_MAX_NEW: Final = MAX_TEXT - _MAX_BEGINNING - 1

_WORD_FIELDS: Final = (
    *("user_prompt", "input_summary", "output_summary", "reasoning", "error_message"),
    *("final_outcome", "original_error", "primary_error", "fallback_output_summary"),
    *("result_summary", "query", "tool_name"),
)
_VALUE_FIELDS: Final = (
    *("input_messages", "output_messages", "arguments", "result", "content"),
    *("input_data", "output_data", "input", "output"),
)
"""Fields of events that are searched: texts, and values, which may be JSON."""
_CONTENT_FIELDS: Final = ("output_messages", "arguments", "result", "content", "output")
"""Fields of large content that are searched, beside new messages and the ends of an input."""

_ANSWER_ROLES: Final = ("assistant", "model", "ai")
_IS_ANSWER: Final = (
    f"JSONExtractString(m, 'role') IN {_ANSWER_ROLES} OR JSONExtractString(m, 'type') = 'ai'"
)
_ESCAPES: Final = (
    *((r"\\\\", r"\x01"), (r"\\n", r"\n"), (r"\\r", r"\n"), (r"\\t", " "), (r'\\"', '"')),
    (r"\x01", r"\\"),
)


def _names(entries: Iterable[str | Numbered]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for each in entries if isinstance(each, str)))


def _begins(entries: Iterable[str | Numbered]) -> str:
    """Return SQL for whether a name belongs to a list over numbered attributes."""
    prefixes = (each.prefix for each in entries if isinstance(each, Numbered))
    return " OR ".join(f"startsWith(k, '{prefix}')" for prefix in prefixes)


def _is_json(value: str) -> str:
    return f"(startsWith({value}, '[') OR startsWith({value}, '{{'))"


def _readable(value: str) -> str:
    """Return SQL for JSON with the breaks and quotes of its texts as such, and for other text as it is.

    Else the word behind a break would be indexed with the letter of its escape.
    """
    made = value
    for escaped, character in _ESCAPES:
        made = f"replaceAll({made}, '{escaped}', '{character}')"
    return f"if({_is_json(value)}, {made}, {value})"


def _decoded(value: str) -> str:
    """Return SQL for JSON with characters instead of their numbers, and for other text as it is."""
    raw = f"JSONExtractRaw(if(position({value}, '\\\\u') > 0 AND {_is_json(value)}, {value}, ''))"
    return f"if({raw} = '', {value}, {raw})"


def _shortened(value: str) -> str:
    """Return SQL for a text, of a long one its beginning and its end."""
    ends = f"left({value}, {_MAX_BEGINNING}), right({value}, {_MAX_NEW})"
    return f"if(length({value}) <= {MAX_TEXT}, {value}, concatWithSeparator('\\n', {ends}))"


_SPAN_NAMES: Final = _names(
    (
        *(*INPUT, *OUTPUT, *BOTH, *OTHER_INPUT, *OTHER_OUTPUT, *SYSTEM),
        *(*ANSWER_TEXT, *ANSWER_THINKING, *ANSWER_CALLS),
        *(*ARGUMENTS, *OTHER_ARGUMENTS, *RESULT, *OTHER_RESULT),
        *(*WHOLE_INPUT, *WHOLE_OUTPUT, *OTHER_WHOLE_INPUT, *OTHER_WHOLE_OUTPUT),
        "exception.message",
    )
)
_EVENT_NAMES: Final = (
    *("content", "message", "tool_calls", "exception.message", "gen_ai.event.content"),
    *("gen_ai.prompt", "gen_ai.completion", "gen_ai.input.messages", "gen_ai.output.messages"),
    "gen_ai.system_instructions",
)
"""Attributes of span events and log records with messages."""


def _values(names: Iterable[str]) -> str:
    """Return SQL for a list of fields of an event, which may be JSON, as one text."""
    listed = ", ".join(f"said.{name}" for name in names)
    return f"arrayStringConcat(arrayMap(v -> {_readable('v')}, [{listed}]), '\\n')"


OF_EVENTS: Final[Mapping[str, object]] = {
    "fields": f"{', '.join(f'said.{name}' for name in _WORD_FIELDS)}, {_values(_VALUE_FIELDS)}",
    "field_types": ", ".join(f"{field} String" for field in (*_WORD_FIELDS, *_VALUE_FIELDS)),
    "field_count": len(_WORD_FIELDS) + len(_VALUE_FIELDS),
    "max_text": MAX_TEXT,
}
OF_CONTENT: Final[Mapping[str, object]] = {
    "is_answer": _IS_ANSWER,
    "readable": _readable("v"),
    "fields": ", ".join(f"left(said.{field}, {MAX_TEXT})" for field in _CONTENT_FIELDS),
    "field_types": ", ".join(
        f"{field} String" for field in ("input_messages", "input", *_CONTENT_FIELDS)
    ),
    "max_beginning": _MAX_BEGINNING,
    "max_text": MAX_TEXT,
}
OF_SPANS: Final[Mapping[str, object]] = {
    "names": _SPAN_NAMES,
    "families": _begins((*OUTPUT, *OTHER_OUTPUT, *DOCUMENTS)),
    "histories": _begins((*INPUT, *OTHER_INPUT)),
    "event_names": _EVENT_NAMES,
    "decoded": _decoded("v"),
    "readable": _readable("v"),
    "readable_message": _readable("p.2"),
    "shortened": _shortened("v"),
    "is_answer": _IS_ANSWER,
    "answer_roles": _ANSWER_ROLES,
    "max_beginning": _MAX_BEGINNING,
    "max_new": _MAX_NEW,
    "max_text": MAX_TEXT,
}
OF_LOGS: Final[Mapping[str, object]] = {
    "names": _EVENT_NAMES,
    "decoded": _decoded("v"),
    "readable": _readable("v"),
    "shortened": _shortened("v"),
}
"""Values of the templates of views."""
