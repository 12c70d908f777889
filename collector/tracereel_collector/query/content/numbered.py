"""Lists that a dialect spreads over numbered attributes such as `prefix.0.message.role`."""

from collections.abc import Mapping
from typing import Any, Final

MAX_ITEMS: Final = 10_000
"""Highest number of an item that is read."""
MAX_DEPTH: Final = 16
"""Levels of a name; attributes with more are left out."""


def unflatten(attributes: Mapping[str, str], prefix: str) -> list[Any]:
    """Return the list in the attributes that begin with a prefix, in order of their numbers."""
    root: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.startswith(prefix):
            path = name[len(prefix) :].split(".", MAX_DEPTH)
            if path[0].isdecimal() and len(path) <= MAX_DEPTH:
                _put(root, path, value)
    return _as_list(_settled(root, MAX_DEPTH))


def _put(node: dict[str, Any], path: list[str], value: str) -> None:
    for step in path[:-1]:
        inner = node.get(step)
        if not isinstance(inner, dict):
            # An attribute that is both a value and a prefix of others keeps its value.
            inner = node[step] = {} if inner is None else {"": inner}
        node = inner
    last = node.get(path[-1])
    if isinstance(last, dict):
        last[""] = value
    else:
        node[path[-1]] = value


def _settled(node: Any, depth: int) -> Any:
    """Return a tree whose objects with only numbers as names are lists."""
    if not isinstance(node, dict) or depth <= 0:
        return node
    made = {name: _settled(each, depth - 1) for name, each in node.items()}
    return _as_list(made) if made and all(name.isdecimal() for name in made) else made


def _as_list(node: Any) -> list[Any]:
    if isinstance(node, list):
        return node
    numbers = sorted((name for name in node if name.isdecimal() and len(name) < 10), key=int)
    return [node[name] for name in numbers[:MAX_ITEMS]]
