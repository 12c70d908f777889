"""Which tables keep rows, and how many each has, counted so that merges do not matter."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tracereel_collector.store.sql import query


class Reads(Protocol):
    """What counting needs of a store."""

    def rows(self, statement: str, /) -> list[tuple[str, ...]]:
        """Run a query and return its rows as text."""
        ...

    def select(self, statement: str, parameters: Mapping[str, Any], /, *, fmt: str) -> bytes:
        """Run a bound query; the answer's bytes in a ClickHouse format."""
        ...


@dataclass(frozen=True, slots=True)
class Table:
    """A table that keeps rows."""

    name: str
    engine: str
    partition_key: str
    forgets: str = ""
    """Not empty where rows go by themselves when they are old enough, whenever parts are merged."""

    @property
    def source(self) -> str:
        """What to select from, so that rows of one key that merges would join count as one."""
        plain = self.engine in ("MergeTree", "ReplicatedMergeTree")
        return f"`{self.name}`" if plain else f"`{self.name}` FINAL"


def stored_tables(store: Reads) -> list[Table]:
    """All of them, by name."""
    return [Table(*row) for row in store.rows(query("stored_tables"))]


def count_all(store: Reads) -> dict[str, int]:
    """Rows of every table."""
    return {table.name: count(store, table) for table in stored_tables(store)}


def count(store: Reads, table: Table) -> int:
    """Rows of a table."""
    return int(store.select(f"SELECT count() FROM {table.source}", {}, fmt="TabSeparated"))


def missing_rows(
    store: Reads, expected: Mapping[str, int], found: Mapping[str, int]
) -> dict[str, tuple[int, int]]:
    """Tables that have not as many rows as they should: expected, found.

    Of tables that forget by themselves, some rows may have gone meanwhile.
    """
    forgetting = {table.name for table in stored_tables(store) if table.forgets}
    return {
        name: (expected.get(name, 0), found.get(name, 0))
        for name in sorted({*expected, *found})
        if expected.get(name, 0) != found.get(name, 0)
        and not (name in forgetting and found.get(name, 0) < expected.get(name, 0))
    }


def stored_bytes(store: Reads) -> int:
    """What all of it takes on disk."""
    return int(store.rows(query("stored_bytes"))[0][0])
