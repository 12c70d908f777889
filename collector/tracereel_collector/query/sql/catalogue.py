"""What is there to read, and the filters that keep every tenant to its own rows."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from tracereel_collector.store.sql import query

REFRESH_SECONDS: Final = 30.0
TENANT_COLUMNS: Final = ("tenant", "TenantId")
PUBLIC: Final = frozenset({"current_prices", "model_prices", "priced_models"})
"""Belongs to nobody, or is made of filtered tables."""
SYSTEM: Final = frozenset(
    {"one", "settings", "functions", "formats", "data_type_families", "table_functions"}
)
"""Tables of the engine that say nothing of what is stored."""
LISTINGS: Final = {
    "tables": frozenset({"database", "name", "table", "engine", "comment", "is_temporary", "uuid"}),
    "columns": frozenset(
        {"database", "table", "name", "type", "position", "comment", "default_kind"}
        | {"default_expression", "is_in_primary_key", "is_in_sorting_key", "is_in_partition_key"}
        | {"numeric_precision", "numeric_scale", "datetime_precision", "character_octet_length"}
    ),
    "databases": frozenset({"name", "engine", "comment", "uuid"}),
}
"""Lists of what there is. Their other columns count rows and bytes of all tenants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The store at one moment."""

    database: str
    tenant_columns: dict[str, str]
    """Tables and views that can be bound to a tenant, and the column that says whose a row is."""
    known: frozenset[str]
    """Everything that has a name, also what may not be read."""
    hidden_columns: frozenset[str]
    """Columns of the engine's lists that count what everybody has."""

    @property
    def readable(self) -> list[str]:
        """What may be read, in order."""
        return sorted({*self.tenant_columns, *(PUBLIC & self.known)})

    def filters(self, tenant: str) -> str:
        """The setting `additional_table_filters` that binds every table to a tenant.

        The engine takes the first entry whose key is a table's name or its alias: the tenants' tables
        come first, so that an alias cannot lend one of them the filter of a list.
        """
        # Every byte as an escape: whatever a tenant is called, it cannot end the text it is in.
        value = "".join(f"\\x{byte:02x}" for byte in tenant.encode())
        rules = {
            f"{self.database}.{table}": f"{column} = '{value}'"
            for table, column in sorted(self.tenant_columns.items())
        }
        shown = ", ".join(f"'{name}'" for name in self.readable)
        rules |= {
            "system.tables": f"database = '{self.database}' AND name IN [{shown}]",
            "system.columns": f"database = '{self.database}' AND table IN [{shown}]",
            "system.databases": f"name = '{self.database}'",
        }
        return "{" + ", ".join(f"{_quoted(key)}: {_quoted(rules[key])}" for key in rules) + "}"


class Catalogues:
    """Knows the store as it was at most half a minute ago."""

    def __init__(
        self,
        database: str,
        rows: Callable[[str], list[tuple[str, ...]]],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._rows = rows
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._seen: Catalogue | None = None
        self._seen_at = 0.0

    def current(self) -> Catalogue:
        """The store as it is."""
        with self._lock:
            if self._seen is None or self._monotonic() - self._seen_at > REFRESH_SECONDS:
                self._seen = made_of(
                    self._database,
                    tables=self._rows(query("sql_tables")),
                    columns=self._rows(query("sql_tenant_columns")),
                    system_columns=self._rows(query("sql_system_columns")),
                )
                self._seen_at = self._monotonic()
            return self._seen


def made_of(
    database: str,
    *,
    tables: Iterable[tuple[str, ...]],
    columns: Iterable[tuple[str, ...]],
    system_columns: Iterable[tuple[str, ...]],
) -> Catalogue:
    """A catalogue from names and engines of tables, their tenant columns, and columns of lists."""
    engines: dict[str, str] = {row[0]: row[1] for row in tables}
    open_columns = frozenset[str]().union(*LISTINGS.values())
    return Catalogue(
        database=database,
        tenant_columns={
            table: column
            for table, column in columns
            if column in TENANT_COLUMNS and _can_be_read(engines.get(table, ""))
        },
        known=frozenset(engines),
        hidden_columns=frozenset(name for (name,) in system_columns) - open_columns,
    )


def _can_be_read(engine: str) -> bool:
    """Doors hold nothing, and a materialized view would hand out its target without the filter."""
    return engine.endswith("MergeTree") or engine in {"View", "Distributed"}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
