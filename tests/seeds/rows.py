"""Rows of the seeds: what each founding document asks for, read from `data/*.toml`."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "data"
SEEDS = ("000", "001", "002", "003", "004", "card")
_OWN = ("id", "check", "holds")
"""Keys of a row or group that are not options of its check."""


@dataclass(frozen=True)
class Row:
    """One requirement of a seed."""

    id: str
    group: str
    holds: str
    check: str | None
    options: dict[str, Any] = field(hash=False)
    status: str
    """`works`, `deviates` or `out of scope`."""
    ours: str = ""
    why: str = ""

    def __getitem__(self, option: str) -> Any:
        return self.options[option]


@dataclass(frozen=True)
class Seed:
    """One founding document."""

    name: str
    title: str
    rows: tuple[Row, ...]


@cache
def seeds() -> tuple[Seed, ...]:
    """Return all seeds with their rows, in order."""
    return tuple(_seed(name) for name in SEEDS)


def all_rows() -> list[Row]:
    """Return the rows of all seeds."""
    return [row for seed in seeds() for row in seed.rows]


def words() -> dict[str, Any]:
    """Return the words of the seeds and the conflicts between them."""
    return tomllib.loads((FOLDER / "words.toml").read_text(encoding="utf-8"))


def _seed(name: str) -> Seed:
    data = tomllib.loads((FOLDER / f"seed_{name}.toml").read_text(encoding="utf-8"))
    rows = sorted(_rows(name, data), key=lambda row: int(row.id.rpartition(".")[2]))
    return Seed(name, data["title"], tuple(rows))


def _rows(seed: str, data: dict[str, Any]) -> Iterator[Row]:
    deviates, out_of_scope = data.get("deviates", {}), data.get("out_of_scope", {})
    for group in data["group"]:
        shared = {key: value for key, value in group.items() if key not in ("title", "rows")}
        for given in group["rows"]:
            merged = {**shared, **given}
            options = {key: value for key, value in merged.items() if key not in _OWN}
            number = str(given["id"])
            entry = deviates.get(number) or out_of_scope.get(number) or {}
            yield Row(
                id=f"{seed}.{number}",
                group=group["title"],
                holds=merged["holds"].format_map(_shown(options)),
                check=merged.get("check"),
                options=options,
                status=_status(number, deviates, out_of_scope),
                ours=entry.get("ours", ""),
                why=entry.get("why", ""),
            )


def _status(number: str, deviates: dict[str, Any], out_of_scope: dict[str, Any]) -> str:
    if number in out_of_scope:
        return "out of scope"
    return "deviates" if number in deviates else "works"


def _shown(options: dict[str, Any]) -> dict[str, Any]:
    """Return options as they are shown in a sentence."""
    return {
        key: ", ".join(f"`{each}`" for each in value) if isinstance(value, list) else value
        for key, value in options.items()
    }
