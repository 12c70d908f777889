"""Names that a refactor has changed since a run was recorded: `tracereel-moves.toml`.

The file is in the working directory and has up to four tables, each `"old" = "new"`: `entries`
(`module:function`), `tools` (names, or `module:function`), `classes` (`module:Class`) and `agents`
(names of agents, pipelines and steps). It is applied when a tape is parsed.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tracereel.tape.codec import TAG

FILE: Final = "tracereel-moves.toml"
MAX_BYTES: Final = 256 * 1024
_TABLES: Final = ("entries", "tools", "classes", "agents")
_TOOLS: Final = ("tool", "retrieval")
_AGENTS: Final = ("agent", "pipeline", "step")
_NO_NAMES: Final[Mapping[str, str]] = {}


class MovesError(ValueError):
    """The file of moved names cannot be used."""


@dataclass(frozen=True, slots=True)
class Moves:
    """New names by old ones."""

    functions: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)
    agents: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.functions or self.tools or self.classes or self.agents)

    def renamed(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a record of a tape with the new names."""
        kind = record.get("r")
        if kind not in ("run", "open") or not self:
            return record
        called = record.get("kind" if kind == "run" else "k")
        names = self.tools if called in _TOOLS else self.agents if called in _AGENTS else _NO_NAMES
        function = "entry" if kind == "run" else "f"
        changed = {
            key: known[record[key]]
            for key, known in (("name", names), (function, self.functions))
            if isinstance(record.get(key), str) and record[key] in known
        }
        return {**record, **changed} if changed else record

    def class_named(self, path: Any) -> Any:
        """Return the new path of a class; classes inside of a moved class move with it."""
        if type(path) is not str:
            return path
        if path in self.classes:
            return self.classes[path]
        outer, dot, _ = path.rpartition(".")
        while dot and ":" in outer:
            if outer in self.classes:
                return f"{self.classes[outer]}{path[len(outer) :]}"
            outer, dot, _ = outer.rpartition(".")
        return path

    def mentioned(self, text: str) -> bool:
        """Return whether a JSON text may name a class that has moved."""
        return any(path in text for path in self.classes)

    def data(self, data: Any) -> Any:
        """Return encoded data with the new paths of classes."""
        if type(data) is list:
            return [self.data(item) for item in data]
        if type(data) is not dict:
            return data
        new = {key: self.data(item) for key, item in data.items()}
        if TAG in new or "bases" in new:
            for key in (TAG, "c", "type"):
                if key in new:
                    new[key] = self.class_named(new[key])
            if type(new.get("bases")) is list:
                new["bases"] = [self.class_named(path) for path in new["bases"]]
        return new


NONE: Final = Moves()


def current() -> Moves:
    """Return the moves of the working directory.

    Raises:
        MovesError: the file cannot be read or is no such file.
    """
    path = Path.cwd() / FILE
    try:
        found = path.stat()
    except OSError:
        return NONE
    return _read(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=16)
def _read(path: Path, _changed: int, size: int) -> Moves:
    if size > MAX_BYTES:
        raise MovesError(f"{FILE} has {size} bytes; at most {MAX_BYTES} are read")
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MovesError(f"{FILE} cannot be read: {error}") from error
    for name, table in tables.items():
        if name not in _TABLES or type(table) is not dict:
            raise MovesError(f"{FILE} has {name!r}; expected the tables {', '.join(_TABLES)}")
        for old, new in table.items():
            if type(new) is not str or not new:
                raise MovesError(f"{FILE}: {name} {old!r} is {new!r}; expected the new name")
            if (name in ("entries", "classes") or ":" in old) and not (":" in old and ":" in new):
                raise MovesError(
                    f"{FILE}: {name} {old!r} is {new!r}; expected module:name for both"
                )
    tools = tables.get("tools", {})
    return Moves(
        functions={**tables.get("entries", {}), **{o: n for o, n in tools.items() if ":" in o}},
        tools={old: new for old, new in tools.items() if ":" not in old},
        classes=tables.get("classes", {}),
        agents=tables.get("agents", {}),
    )
