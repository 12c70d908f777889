"""Execution of user statements: checks, tenant filter and limits."""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tracereel_collector.errors import BadRequestError
from tracereel_collector.query.user_sql import statement_text, tree
from tracereel_collector.query.user_sql.catalogue import Catalogue, CatalogueCache
from tracereel_collector.query.user_sql.sent_filters import (
    SentFilters,
    read_filters,
    split_filters,
)
from tracereel_collector.runtime.tenant_shares import ONE_TENANT, SharePolicy, TenantShares
from tracereel_collector.store.settings import SENSE, SHARDED
from tracereel_collector.store.user_sql import UserSqlResult, UserSqlStore

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

# The tenant filter is a plan step right above the read. These optimizations could move conditions of
# the statement below it, where their errors would reveal rows of other tenants.
_FILTER_FIRST: Final = {
    "optimize_move_to_prewhere": 0,
    "query_plan_optimize_prewhere": 0,
    "query_plan_merge_filters": 0,
    "optimize_trivial_count_query": 0,
    "optimize_use_projections": 0,
    "optimize_use_implicit_projections": 0,
    "use_query_condition_cache": 0,
    "use_query_cache": 0,
    # Statistics count rows before the filter.
    "output_format_write_statistics": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlLimits:
    """Limits of one statement, and of concurrent statements."""

    seconds: float = 10.0
    memory_bytes: int = 512 * 1024 * 1024
    result_bytes: int = 64 * 1024 * 1024
    max_rows: int = 1_000_000
    threads: int = 2
    at_once: int = 2
    wait_seconds: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlQuery:
    """Statement as received."""

    sql: bytes
    tenant: str
    parameters: Mapping[str, str]
    format: str
    """Format for statements without a FORMAT clause."""
    settings: Mapping[str, str]
    """Output settings; all other settings are fixed."""
    rows: int | None = None
    """Maximum rows of the response."""
    whole: bool = False
    seconds: float | None = None
    """Maximum time, if less than the limit."""
    filters: bytes = b""
    """Value of `additional_table_filters`, if it came beside the statement."""


_ONLY_SETTINGS: Final = frozenset({"system.settings"})


class UserSql:
    """Runner of user statements; thread-safe."""

    def __init__(
        self,
        store: UserSqlStore,
        catalogues: CatalogueCache,
        limits: SqlLimits,
        shares: SharePolicy = ONE_TENANT,
    ) -> None:
        self._store = store
        self._catalogues = catalogues
        self._slots = TenantShares("sql_statements", limits.at_once, shares)
        self.limits = limits

    def slot(self, tenant: str) -> AbstractAsyncContextManager[None]:
        """Return the concurrency slot to hold in the block around `run`.

        Raises:
            ThrottledError: too many statements are running.
        """
        return self._slots.waited(tenant, seconds=self.limits.wait_seconds)

    @contextmanager
    def run(self, asked: SqlQuery) -> Iterator[tuple[UserSqlResult, str]]:
        """Run a statement; yield the result and its format.

        Raises:
            BadRequestError: the statement is malformed.
            SqlRefusedError: the statement is not allowed.
            StatementError: the store could not run the statement.
        """
        if len(asked.sql) > MAX_SQL_BYTES:
            raise BadRequestError(f"the statement is longer than {MAX_SQL_BYTES} bytes")
        _check_parameters(asked.parameters)
        catalogue = self._catalogues.current()
        sql, in_statement = split_filters(asked.sql)
        checked = statement_text.read(sql, catalogue)
        fmt = checked.format or asked.format
        if fmt not in FORMATS:
            raise BadRequestError(
                f"the format {fmt[:60]!r} is not answered; accepted are {', '.join(sorted(FORMATS))}"
            )
        filters = read_filters(in_statement or asked.filters, catalogue)
        settings = self._settings(asked, catalogue, filters)
        if checked.select is not None:
            explained = self._run(
                f"EXPLAIN AST {checked.select}", asked, settings, "TSVRaw", whole=True
            )
            shown = b"".join(explained.chunks()).decode("utf-8", "replace")
            tables = tree.check(shown, catalogue, subqueries=checked.subqueries)
            if tables == _ONLY_SETTINGS:
                # Clients look there for what they may send; with 1 they send no limit of their own.
                settings["readonly"] = 2
        limited = {
            **asked.settings,
            **settings,
            "limit": min(asked.rows or self.limits.max_rows, self.limits.max_rows),
            "max_result_bytes": self.limits.result_bytes,
            "result_overflow_mode": "throw",
        }
        result = self._run(checked.sql, asked, limited, fmt, whole=asked.whole)
        try:
            yield result, fmt
        finally:
            result.close()

    def _run(
        self, sql: str, asked: SqlQuery, settings: Mapping[str, Any], fmt: str, *, whole: bool
    ) -> UserSqlResult:
        return self._store.run(
            sql,
            settings=settings,
            parameters=asked.parameters,
            fmt=fmt,
            whole=whole,
            seconds=self.limits.seconds,
            max_bytes=self.limits.result_bytes,
        )

    def _settings(
        self, asked: SqlQuery, catalogue: Catalogue, filters: SentFilters
    ) -> dict[str, Any]:
        limits = self.limits
        return {
            **SENSE,
            **SHARDED,
            **_FILTER_FIRST,
            "max_execution_time": min(limits.seconds, asked.seconds or limits.seconds),
            "timeout_overflow_mode": "throw",
            "max_memory_usage": limits.memory_bytes,
            "max_threads": limits.threads,
            "max_temporary_data_on_disk_size_for_query": limits.memory_bytes,
            "additional_table_filters": catalogue.filters(asked.tenant, filters),
            "readonly": 1,
        }


def _check_parameters(parameters: Mapping[str, str]) -> None:
    if len(parameters) > MAX_PARAMETERS:
        raise BadRequestError(f"at most {MAX_PARAMETERS} parameters are accepted")
    for name in parameters:
        if not _PARAMETER.fullmatch(name):
            raise BadRequestError(f"the parameter {name[:80]!r} is not a name")
