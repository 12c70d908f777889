"""Error messages for rejected lines: field, received value and expected value."""

import json
import math
from typing import Any, Final

_OF_THE_WHOLE: Final = {
    "Object missing required field `": "missing; the field is required",
    "Object contains unknown field `": "there is no such field",
}
"""Messages of msgspec about objects, and their texts for the field."""


def explain_field(message: str, event: dict[str, Any]) -> str:
    """Rewrite msgspec's message with the field first and the received value."""
    text, _, path = message.partition(" - at `$.")
    field = path.rstrip("`")
    if not field:
        for beginning, why in _OF_THE_WHOLE.items():
            if message.startswith(beginning):
                return f"{message.removeprefix(beginning).rstrip('`')}: {why}"
        return message
    value = event.get(field.partition("[")[0].partition(".")[0])
    if field == "event_version":
        return f"event_version: {value!r} is not supported; expected a 1.x version such as '1.0.0'"
    return f"{field}: {text[:1].lower()}{text[1:]}; got {repr(value)[:80]}"


class _Odd:
    """Number that JSON or ClickHouse cannot represent."""

    def __init__(self, text: str) -> None:
        self.text = text


def _number(text: str) -> Any:
    value = float(text)
    return value if math.isfinite(value) else _Odd(text)


def explain_line(line: bytes, problem: str) -> tuple[str, str | None]:
    """Return why a line is not valid JSON, and its event id if readable.

    A lenient decoder finds the field: invalid UTF-8 becomes surrogates, invalid numbers `_Odd`.
    """
    try:
        text = line.decode("utf-8", "surrogateescape")
        event = json.loads(text, parse_constant=_Odd, parse_float=_number)
    except (ValueError, RecursionError):
        return problem, None
    path, value = _first_odd(event, "")
    name = event.get("event_id") if isinstance(event, dict) else None
    event_id = name if isinstance(name, str) and _is_text(name) else None
    if isinstance(value, _Odd):
        return f"{path}: expected a number of 64 bits; got {value.text[:40]}", event_id
    if isinstance(value, str):
        kind = "invalid UTF-8" if any("\udc80" <= c <= "\udcff" for c in value) else "surrogates"
        return f"{path}: expected text in UTF-8; got {kind}", event_id
    return problem, event_id


def _first_odd(value: Any, path: str) -> tuple[str, Any]:
    """Return the path and the first invalid value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not _is_text(key):
                return f"{path}.<a key>".lstrip("."), key
            found = _first_odd(inner, f"{path}.{key[:80]}")
            if found[1] is not None:
                return found
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found = _first_odd(inner, f"{path}[{index}]")
            if found[1] is not None:
                return found
    elif isinstance(value, _Odd) or (isinstance(value, str) and not _is_text(value)):
        return path.lstrip("."), value
    return "", None


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def json_name(value: Any) -> str:
    """Return the JSON name of a value's type."""
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
