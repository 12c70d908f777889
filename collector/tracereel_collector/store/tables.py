"""Tables that store rows, and row counts that do not depend on merges."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.store.shards import Shards
from tracereel_collector.store.sql import query

OF_A_STORE: Final = frozenset({"schema_cluster", "schema_migrations", "store_copies"})
"""Tables about one store: not copied into another."""


@dataclass(frozen=True, slots=True)
class Table:
    """Table that stores rows."""

    name: str
    engine: str
    partition_key: str

    @property
    def source(self) -> str:
        """Table expression for SELECT in which rows that a merge would combine count as one."""
        plain = self.engine in ("MergeTree", "ReplicatedMergeTree")
        return f"`{self.name}`" if plain else f"`{self.name}` FINAL"


def stored_tables(store: ClickHouseStore) -> list[Table]:
    """Return all tables, ordered by name; on a cluster by the names that read all shards."""
    shards = Shards.of(store)
    return [
        Table(shards.name(name), engine, key)
        for name, engine, key in store.rows(query("stored_tables"))
    ]


def count_all(store: ClickHouseStore) -> dict[str, int]:
    """Return the number of rows by table, without those about the store itself."""
    return {
        table.name: count(store, table)
        for table in stored_tables(store)
        if table.name not in OF_A_STORE
    }


def count(store: ClickHouseStore, table: Table, partition: str | None = None) -> int:
    """Return the number of rows of a table or of one of its partitions."""
    where = "" if partition is None else " WHERE _partition_id = {partition:String}"
    counting = f"SELECT count() FROM {table.source}{where}"
    return int(store.select(counting, {"partition": partition or ""}, fmt="TabSeparated"))


def wrong_counts(
    expected: Mapping[str, int], found: Mapping[str, int]
) -> dict[str, tuple[int, int]]:
    """Return expected and found rows of the tables where they differ."""
    return {
        name: (expected.get(name, 0), found.get(name, 0))
        for name in sorted({*expected, *found})
        if expected.get(name, 0) != found.get(name, 0)
    }


def stored_bytes(store: ClickHouseStore) -> int:
    """Return the bytes that all tables take on disk."""
    return int(store.rows(query("stored_bytes"))[0][0])
