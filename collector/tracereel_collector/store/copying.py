"""Copy of one store into another, partition by partition, so that it can be resumed.

A partition is written into a temporary table, counted there, and replaces the target's partition in
one step: views on the table are not triggered, and rows of earlier attempts are removed. On a cluster
the temporary table is replicated in each shard, and another one distributes the rows over the shards.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tracereel_collector.errors import StartupError, StoreUnavailableError
from tracereel_collector.runtime import failpoints
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.store.layout import SERVER
from tracereel_collector.store.migrate import migrate
from tracereel_collector.store.shards import Shards
from tracereel_collector.store.sql import query
from tracereel_collector.store.tables import (
    OF_A_STORE,
    Table,
    count,
    count_all,
    stored_tables,
    wrong_counts,
)

SLICE_BYTES: Final = 48 * 1024 * 1024
TEMPORARY_PREFIX: Final = "copy_of_"
_SPREAD_PREFIX: Final = "copy_to_"
NOTES: Final = "store_copies"
_MAY_HAVE_ROWS: Final = frozenset({"model_prices", "price_names", "price_rules", "retention_rules"})
_CREATE_NOTES: Final = f"""CREATE TABLE IF NOT EXISTS {NOTES}
(source String, what String, partition String, rows UInt64, at DateTime64(6) DEFAULT now64(6))
ENGINE = MergeTree ORDER BY (source, what, partition)
SETTINGS {SERVER.table_settings}"""
_BEGUN: Final = "(begun)"
_FINISHED: Final = "(finished)"

Progress = Callable[[int, int], None]
"""Progress callback: rows done, rows in total."""


@dataclass(frozen=True, slots=True)
class _CopyPart:
    partition: str
    name: str
    rows: int
    size: int


class StoreCopy:
    """Copies a store that does not change into another that has the schema and no other writer."""

    def __init__(
        self, source: ClickHouseStore, target: ClickHouseStore, *, report: Progress
    ) -> None:
        self._source = source
        self._target = target
        self._shards = Shards.of(target)
        self._report = report
        self._done = 0
        self._total = 0
        self._id = source.rows(
            "SELECT toString(uuid) FROM system.databases WHERE name = currentDatabase()"
        )[0][0]

    def run(self) -> dict[str, tuple[int, int]]:
        """Copy missing partitions; return the equal row counts of target and source by table.

        Raises:
            StartupError: the target has rows that are not of this copy.
            StoreUnavailableError: a store is unavailable or counts differ; run again to resume.
        """
        migrate(self._source)
        self._target.command(_CREATE_NOTES)
        notes = self._notes()
        tables = [each for each in stored_tables(self._source) if each.name not in OF_A_STORE]
        if (_FINISHED, "") in notes:
            return self._compared()
        if (_BEGUN, "") not in notes:
            self._refuse_foreign_rows()
            self._note(_BEGUN)
        # Merges would replace parts before they are read.
        self._source.command("SYSTEM STOP MERGES")
        try:
            parts = {table.name: self._parts(table) for table in tables}
            self._total = sum(part.rows for each in parts.values() for part in each)
            for table in tables:
                self._copy_table(table, parts[table.name], notes)
        finally:
            self._source.command("SYSTEM START MERGES")
        compared = self._compared()
        self._note(_FINISHED)
        return compared

    def _copy_table(
        self, table: Table, parts: list[_CopyPart], notes: dict[tuple[str, str], int]
    ) -> None:
        temporary = f"{TEMPORARY_PREFIX}{table.name}"
        columns = [name for (name,) in self._source.rows(query("copied_columns"), table=table.name)]
        for partition in sorted({part.partition for part in parts}):
            mine = [part for part in parts if part.partition == partition]
            rows = count(self._source, table, partition)
            there = count(self._target, table, partition)
            if notes.get((table.name, partition)) == rows == there:
                self._advance(sum(part.rows for part in mine))
                continue
            if there and (table.name, partition) not in notes and table.name not in _MAY_HAVE_ROWS:
                raise StartupError(
                    f"{there} rows of {table.name} have come to the target from elsewhere",
                    hint="start no collector on it before the copy is finished",
                )
            into = self._make(temporary, table.name)
            for part in mine:
                self._copy_part(table.name, part, columns, into=into)
            copy = Table(temporary, table.engine, table.partition_key)
            for each in self._shards.replicas if self._shards.are_several else ():
                each.command(f"SYSTEM SYNC REPLICA `{temporary}`")
            arrivals = [count(each, copy, partition) for each in self._shards.one_of_each()]
            arrived = sum(arrivals)
            if arrived != rows:
                raise StoreUnavailableError(
                    f"{table.name}, partition {partition}: {rows} rows were read and {arrived} arrived",
                    hint="run it again",
                )
            # The note comes first: a partition without a note counts as foreign.
            self._note(table.name, partition, rows)
            kept = self._shards.kept(table.name)
            for each, came in zip(self._shards.one_of_each(), arrivals, strict=True):
                # An empty partition is refused as a replacement.
                put = f"REPLACE PARTITION ID '{partition}' FROM `{temporary}`"
                drop = f"DROP PARTITION ID '{partition}'"
                each.command(f"ALTER TABLE `{kept}` {put if came else drop}")
            failpoints.here("partition_copied")
        self._drop(temporary, table.name)

    def _make(self, temporary: str, name: str) -> str:
        """Make the temporary tables, empty; return the one that rows are written into."""
        self._drop(temporary, name)
        kept = self._shards.kept(name)
        engine = _definition(self._target, kept)
        for each in self._shards.replicas:
            # Replicas have a place in Keeper, whose last part is the table's name.
            place = engine.replace(f"/{kept}'", f"/{temporary}'")
            each.command(f"CREATE TABLE `{temporary}` AS `{kept}` ENGINE = {place}")
        if not self._shards.are_several:
            return temporary
        into = f"{_SPREAD_PREFIX}{name}"
        spread = _definition(self._target, name).replace(f"'{kept}'", f"'{temporary}'")
        self._target.command(f"CREATE TABLE `{into}` AS `{name}` ENGINE = {spread}")
        return into

    def _drop(self, temporary: str, name: str) -> None:
        self._target.command(f"DROP TABLE IF EXISTS `{_SPREAD_PREFIX}{name}` SYNC")
        for each in self._shards.replicas:
            each.command(f"DROP TABLE IF EXISTS `{temporary}` SYNC")

    def _copy_part(self, table: str, part: _CopyPart, columns: list[str], *, into: str) -> None:
        """Copy a part in slices that fit into memory and into one request."""
        names = ", ".join(f"`{name}`" for name in columns)
        for first, last in _slices(part):
            data = self._source.select(
                f"SELECT {names} FROM `{table}` WHERE _part = {{part:String}}"
                " AND _part_offset >= {first:UInt64} AND _part_offset < {last:UInt64}",
                {"part": part.name, "first": first, "last": last},
                fmt="Native",
            )
            self._target.put(into, data, fmt="Native", columns=columns)
            self._advance(last - first)

    def _parts(self, table: Table) -> list[_CopyPart]:
        found = self._source.rows(query("copy_slices"), table=table.name)
        return [_CopyPart(a, b, int(rows), int(size)) for a, b, rows, size in found]

    def _compared(self) -> dict[str, tuple[int, int]]:
        there, here = count_all(self._target), count_all(self._source)
        both = {name: (there.get(name, 0), rows) for name, rows in here.items()}
        copied = {name: pair[0] for name, pair in both.items()}
        if wrong := wrong_counts({name: here[name] for name in both}, copied):
            raise StoreUnavailableError(
                f"the stores differ (table: rows here, rows there): {wrong}",
                hint="once a collector has used the target, they do",
            )
        return both

    def _refuse_foreign_rows(self) -> None:
        there = count_all(self._target)
        filled = sorted(name for name in there if there[name] and name not in _MAY_HAVE_ROWS)
        if filled:
            raise StartupError(
                f"the target has {there[filled[0]]} rows in {filled[0]} that are not of this copy",
                hint="name a database that is empty, or not there yet",
            )

    def _notes(self) -> dict[tuple[str, str], int]:
        found = self._target.rows(
            f"SELECT what, partition, argMax(rows, at) FROM {NOTES} WHERE source = {{source:String}}"
            " GROUP BY what, partition",
            source=self._id,
        )
        return {(what, partition): int(rows) for what, partition, rows in found}

    def _note(self, what: str, partition: str = "", rows: int = 0) -> None:
        self._target.change(
            f"INSERT INTO {NOTES} (source, what, partition, rows)"
            " SELECT {source:String}, {what:String}, {partition:String}, {rows:UInt64}",
            {"source": self._id, "what": what, "partition": partition, "rows": rows},
        )

    def _advance(self, rows: int) -> None:
        self._done += rows
        self._report(self._done, self._total)


def _definition(store: ClickHouseStore, table: str) -> str:
    """Return a table's engine with its arguments, keys and settings."""
    return store.select(query("table_definition"), {"table": table}, fmt="RawBLOB").decode()


def _slices(part: _CopyPart) -> Iterator[tuple[int, int]]:
    step = max(1, SLICE_BYTES * part.rows // max(1, part.size))
    for first in range(0, part.rows, step):
        yield first, min(part.rows, first + step)
