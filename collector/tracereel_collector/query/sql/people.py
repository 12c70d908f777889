"""Checks a statement, binds it to a tenant, and runs it under limits."""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tracereel_collector.errors import BadRequestError, ThrottledError
from tracereel_collector.query.sql import tree, words
from tracereel_collector.query.sql.catalogue import Catalogue, Catalogues
from tracereel_collector.store.people import PeoplesStore, Result

FORMATS: Final = frozenset(
    """
    JSON JSONCompact JSONStrings JSONCompactStrings JSONColumns JSONCompactColumns
    JSONColumnsWithMetadata JSONEachRow JSONStringsEachRow JSONCompactEachRow
    JSONCompactStringsEachRow JSONCompactEachRowWithNames JSONCompactEachRowWithNamesAndTypes
    JSONCompactStringsEachRowWithNames JSONCompactStringsEachRowWithNamesAndTypes JSONLines NDJSON
    JSONObjectEachRow CSV CSVWithNames CSVWithNamesAndTypes TSV TSVRaw TSVWithNames
    TSVWithNamesAndTypes TabSeparated TabSeparatedRaw TabSeparatedWithNames
    TabSeparatedWithNamesAndTypes Native RowBinary RowBinaryWithNames RowBinaryWithNamesAndTypes
    Parquet Arrow ArrowStream Pretty PrettyCompact PrettySpace Vertical Markdown Values Null
    """.split()  # noqa: SIM905 - forty quotes would hide the names
)
MAX_SQL_BYTES: Final = 256 * 1024
MAX_PARAMETERS: Final = 100
_PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

# The filter of a tenant is a step of the plan right above the read. The engine may move conditions of
# the statement below it, where they would see, and tell by their errors of, rows of other tenants.
_FILTER_FIRST: Final = {
    "optimize_move_to_prewhere": 0,
    "query_plan_optimize_prewhere": 0,
    "query_plan_merge_filters": 0,
    "optimize_trivial_count_query": 0,
    "optimize_use_projections": 0,
    "optimize_use_implicit_projections": 0,
    "use_query_condition_cache": 0,
    "use_query_cache": 0,
}
_SILENT: Final = {
    # Rows read are counted before the filter.
    "output_format_write_statistics": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlLimits:
    """What one statement may cost, and how many run at a time."""

    seconds: float = 10.0
    memory_bytes: int = 512 * 1024 * 1024
    result_bytes: int = 64 * 1024 * 1024
    max_rows: int = 1_000_000
    threads: int = 2
    at_once: int = 2
    wait_seconds: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A statement as somebody sent it."""

    sql: bytes
    tenant: str
    parameters: Mapping[str, str]
    format: str
    """For a statement that names none."""
    settings: Mapping[str, str]
    """Of the output; everything else is decided here."""
    rows: int | None = None
    """Most rows of the answer."""
    whole: bool = False


class PeoplesSql:
    """Answers statements of people; every method may be called from any thread."""

    def __init__(self, store: PeoplesStore, catalogues: Catalogues, limits: SqlLimits) -> None:
        self._store = store
        self._catalogues = catalogues
        self._slots = threading.BoundedSemaphore(limits.at_once)
        self.limits = limits

    @contextmanager
    def run(self, asked: Asked) -> Iterator[tuple[Result, str]]:
        """The answer and its format, while the block lasts.

        Raises:
            BadRequestError: the statement cannot be read.
            SqlRefusedError: it may not run.
            StatementError: the store could not run it.
            ThrottledError: too many run already.
        """
        if len(asked.sql) > MAX_SQL_BYTES:
            raise BadRequestError(f"the statement is longer than {MAX_SQL_BYTES} bytes")
        _check_parameters(asked.parameters)
        if not self._slots.acquire(timeout=self.limits.wait_seconds):
            raise ThrottledError(f"{self.limits.at_once} statements run already")
        try:
            catalogue = self._catalogues.current()
            said = words.read(asked.sql, catalogue)
            fmt = said.format or asked.format
            if fmt not in FORMATS:
                raise BadRequestError(
                    f"the format {fmt[:60]!r} is not answered; accepted are {', '.join(sorted(FORMATS))}"
                )
            if said.select is not None:
                tree.check(self._tree(said.select, asked, catalogue), catalogue)
            result = self._run(said.sql, asked, catalogue, fmt)
            try:
                yield result, fmt
            finally:
                result.close()
        finally:
            self._slots.release()

    def _tree(self, select: str, asked: Asked, catalogue: Catalogue) -> str:
        result = self._store.run(
            f"EXPLAIN AST {select}",
            settings=self._settings(asked.tenant, catalogue),
            parameters=asked.parameters,
            fmt="TSVRaw",
            whole=True,
            seconds=self.limits.seconds,
            max_bytes=self.limits.result_bytes,
        )
        return b"".join(result.chunks()).decode("utf-8", "replace")

    def _run(self, sql: str, asked: Asked, catalogue: Catalogue, fmt: str) -> Result:
        rows = min(asked.rows or self.limits.max_rows, self.limits.max_rows)
        return self._store.run(
            sql,
            settings={
                **asked.settings,
                **self._settings(asked.tenant, catalogue),
                "limit": rows,
                "max_result_bytes": self.limits.result_bytes,
                "result_overflow_mode": "throw",
            },
            parameters=asked.parameters,
            fmt=fmt,
            whole=asked.whole,
            seconds=self.limits.seconds,
            max_bytes=self.limits.result_bytes,
        )

    def _settings(self, tenant: str, catalogue: Catalogue) -> dict[str, Any]:
        limits = self.limits
        return {
            **_FILTER_FIRST,
            **_SILENT,
            "max_execution_time": limits.seconds,
            "timeout_overflow_mode": "throw",
            "max_memory_usage": limits.memory_bytes,
            "max_threads": limits.threads,
            "max_temporary_data_on_disk_size_for_query": limits.memory_bytes,
            "additional_table_filters": catalogue.filters(tenant),
            "readonly": 1,
        }


def _check_parameters(parameters: Mapping[str, str]) -> None:
    if len(parameters) > MAX_PARAMETERS:
        raise BadRequestError(f"at most {MAX_PARAMETERS} parameters are accepted")
    for name in parameters:
        if not _PARAMETER.fullmatch(name):
            raise BadRequestError(f"the parameter {name[:80]!r} is not a name")
