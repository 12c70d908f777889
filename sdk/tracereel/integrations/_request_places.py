"""Places in a request that hold a value: header, cookie, query or path parameter, or a function."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs

from tracereel._core import remote_identity
from tracereel._runtime import guard

MAX_QUERY_FIELDS: Final = 1000
PROMPT: Final = "prompt"

Place = str | Callable[[Any], str | None]
Reader = Callable[[Any, Mapping[str, Any]], str | None]
"""Reads a value from a scope and its path parameters."""


def reader_of(option: str, place: Place) -> Reader:
    """Return the function that reads a place.

    Raises:
        ValueError: the place is not written as `header:NAME`, `cookie:NAME`, `query:NAME` or `path:NAME`.
    """
    if callable(place):
        return lambda scope, _params: _usable(option, [place(scope)])
    kind, _, name = place.partition(":")
    read = _READERS.get(kind)
    if read is None or not name:
        forms = ", ".join(f"{known}:NAME" for known in _READERS)
        raise ValueError(f"{option} is {place!r}; expected {forms}, or a function of the scope")
    return lambda scope, params: _usable(option, read(name, scope, params))


def read_place(reader: Reader, scope: Any, params: Mapping[str, Any]) -> str | None:
    """Return the value in a request, or `None` if it has none or the function fails."""
    try:
        return reader(scope, params)
    except Exception as error:  # noqa: BLE001 - a function of the program
        guard.report("asgi", error)
        return None


def _usable(option: str, values: list[Any]) -> str | None:
    # A repeated header or parameter is ambiguous.
    value = values[0] if len(values) == 1 else None
    if option == PROMPT:  # not an id; cut where it is recorded
        return value if isinstance(value, str) and value else None
    return value if remote_identity.usable(option, value) else None


def _header(name: str, scope: Any, _params: Mapping[str, Any]) -> list[str]:
    name = name.lower()
    return remote_identity.header_values(scope["headers"], [name])[name]


def _cookie(name: str, scope: Any, _params: Mapping[str, Any]) -> list[str]:
    found = []
    for header in _header("cookie", scope, {}):
        for pair in header.split(";"):
            key, equals, value = pair.partition("=")
            if equals and key.strip() == name:
                found.append(value.strip().strip('"'))
    return found


def _query(name: str, scope: Any, _params: Mapping[str, Any]) -> list[str]:
    text = bytes(scope.get("query_string") or b"").decode("latin-1")
    try:
        return parse_qs(text, max_num_fields=MAX_QUERY_FIELDS).get(name, [])
    except ValueError:  # more fields than are read
        return []


def _path(name: str, _scope: Any, params: Mapping[str, Any]) -> list[str]:
    return [str(params[name])] if name in params else []


_READERS: Final[Mapping[str, Callable[[str, Any, Mapping[str, Any]], list[str]]]] = {
    "header": _header,
    "cookie": _cookie,
    "query": _query,
    "path": _path,
}
