"""Copy of one store into another, partition by partition, so that it can be resumed.

A partition is written into a temporary table, counted there, and replaces the target's partition in
one step: views on the table are not triggered, and rows of earlier attempts are removed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tracereel_collector.errors import StartupError, StoreUnavailableError
from tracereel_collector.runtime import failpoints
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.store.migrate import migrate
from tracereel_collector.store.sql import MERGE_TREE_SETTINGS, query
from tracereel_collector.store.tables import Table, count, count_all, stored_tables, wrong_counts

SLICE_BYTES: Final = 48 * 1024 * 1024
TEMPORARY_PREFIX: Final = "copy_of_"
NOTES: Final = "store_copies"
_NOT_COPIED: Final = frozenset({"schema_migrations", NOTES})
_MAY_HAVE_ROWS: Final = _NOT_COPIED | {"model_prices", "retention_rules"}
_CREATE_NOTES: Final = f"""CREATE TABLE IF NOT EXISTS {NOTES}
(source String, what String, partition String, rows UInt64, at DateTime64(6) DEFAULT now64(6))
ENGINE = MergeTree ORDER BY (source, what, partition)
SETTINGS {MERGE_TREE_SETTINGS}"""
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
    """Copies a store that does not change into another that has no other writer."""

    def __init__(self, source: ClickHouseStore, target: ClickHouseStore, *, tell: Progress) -> None:
        self._source = source
        self._target = target
        self._tell = tell
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
        self._target.prepare()
        migrate(self._target)
        self._target.command(_CREATE_NOTES)
        notes = self._notes()
        tables = [each for each in stored_tables(self._source) if each.name not in _NOT_COPIED]
        if (_FINISHED, "") in notes:
            return self._compared()
        if (_BEGUN, "") not in notes:
            self._refuse_foreign_rows({table.name for table in tables})
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
            self._target.command(f"DROP TABLE IF EXISTS `{temporary}` SYNC")
            self._target.command(f"CREATE TABLE `{temporary}` AS `{table.name}`")
            for part in mine:
                self._copy_part(table.name, part, columns, into=temporary)
            copy = Table(temporary, table.engine, table.partition_key)
            arrived = count(self._target, copy, partition)
            if arrived != rows:
                raise StoreUnavailableError(
                    f"{table.name}, partition {partition}: {rows} rows were read and {arrived} arrived",
                    hint="run it again",
                )
            # The note comes first: a partition without a note counts as foreign.
            self._note(table.name, partition, rows)
            self._target.command(
                f"ALTER TABLE `{table.name}` REPLACE PARTITION ID '{partition}' FROM `{temporary}`"
            )
            failpoints.here("partition_copied")
        self._target.command(f"DROP TABLE IF EXISTS `{temporary}` SYNC")

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
        both = {
            name: (there.get(name, 0), rows)
            for name, rows in here.items()
            if name not in _NOT_COPIED
        }
        copied = {name: pair[0] for name, pair in both.items()}
        if wrong := wrong_counts({name: here[name] for name in both}, copied):
            raise StoreUnavailableError(
                f"the stores differ (table: rows here, rows there): {wrong}",
                hint="once a collector has used the target, they do",
            )
        return both

    def _refuse_foreign_rows(self, names: set[str]) -> None:
        there = count_all(self._target)
        if missing := sorted(names - there.keys()):
            raise StartupError(
                f"the target does not keep {missing[0]} in a table of its own: is it a cluster?",
                hint="copy into one server; docs/growing.md tells how to go on from there",
            )
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
        self._tell(self._done, self._total)


def _slices(part: _CopyPart) -> Iterator[tuple[int, int]]:
    step = max(1, SLICE_BYTES * part.rows // max(1, part.size))
    for first in range(0, part.rows, step):
        yield first, min(part.rows, first + step)
