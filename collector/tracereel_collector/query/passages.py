"""Passages of texts for reading: what was searched for often stands in JSON, cut at both ends."""

import re
from collections.abc import Callable, Sequence
from typing import Final

_JSON: Final = re.compile(r'"\s*:|[\[{]\s*"|"\s*[\]}]')
_BREAKS: Final = re.compile(r"(?:\s|\\[nrt])+")
_QUOTES: Final = re.compile(r'\\{1,8}"')
"""Quotes in a text, and those of JSON in JSON."""
_KEY: Final = r'"([A-Za-z_][\w.-]{0,60})"\s*+:\s*+'
_FORM: Final = re.compile(
    r'^…\w{0,20}"?\s*:\s*"[^"\s]{0,60}"(?=[,\]}])|'  # the first field is often cut
    r'"(?:role|type|kind|lc|object|index|name|status|id|[a-z_]+_id|[a-z]+Id|finish_reason)"\s*+:\s*+'
    r'(?:"[^"]{0,80}(?:"|…?$)|[\w.+-]+)\s*+,?\s*+'
)
"""Fields that give a message its form."""
_EMPTY: Final = re.compile(_KEY + r'(?:null|""|\[\s*\]|\{\s*\})\s*+,?\s*+')
_FIELD: Final = re.compile(
    r'"?(?:(?<![\[\]{}\s,])[\[\]{}\s,]+)?'
    + _KEY
    + r'[\[{\s]*+(?:"(?![A-Za-z_][\w.-]{0,60}"\s*:)"?)?'
)
_CLOSED: Final = re.compile(r'"\s*[\]},][\]}\s,"]*|(?:(?<![\]\s])[\]\s]+)?\}[\]}\s,]*')
_OPENED: Final = re.compile(r'(?:(?<![\[\s])[\[\s]+)?\{[\[{\s]*"?|\[\s*"')
_TEXTS: Final = frozenset(
    {
        *("content", "text", "parts", "messages", "message", "value", "output", "input", "result"),
        *("response", "arguments", "args", "kwargs", "inputs", "outputs", "prompt", "contents"),
        *("data", "thinking", "state", "function", "tool_calls"),
    }
)
"""Names of fields that say nothing about the text in them."""
_GAP: Final = " · "
_GAPS: Final = re.compile(r"(?:(?<!\s)\s+)?·[\s·]*")


def readable(passage: str, searched: Sequence[str]) -> str:
    """Return a passage on one line, without the JSON around its texts; what was searched for stays."""
    passage = _QUOTES.sub('"', passage)
    cut = passage.startswith("…")
    words = [word.lower() for word in searched]

    def gone(found: re.Match[str]) -> str:
        return found[0] if any(word in found[0].lower() for word in words) else ""

    def named(found: re.Match[str]) -> str:
        name = found[1]
        hidden = name in _TEXTS and name.lower() not in words
        return _GAP if hidden else f"{_GAP}{name}: "

    if _JSON.search(passage):
        steps: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
            *((_FORM, gone), (_EMPTY, gone), (_FIELD, named), (_CLOSED, _GAP), (_OPENED, _GAP))
        ]
        for pattern, made in steps:
            passage = pattern.sub(made, passage)
        passage = _GAPS.sub(_GAP, passage).strip(' ·"')
        passage = passage.replace(f"…{_GAP}", "… ").replace(f"{_GAP}…", " …")
        if cut and not passage.startswith("…"):
            passage = f"… {passage}"
    return _BREAKS.sub(" ", passage).strip()
