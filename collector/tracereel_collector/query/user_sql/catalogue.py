"""Catalogue of readable tables, and the filters that restrict a tenant to its rows."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tracereel_collector.store.sql import query

REFRESH_SECONDS: Final = 30.0
TENANT_COLUMNS: Final = ("tenant", "TenantId")
PUBLIC: Final = frozenset({"current_prices", "model_prices", "priced_models"})
"""Tables without tenant data, and views of filtered tables."""
SYSTEM: Final = frozenset(
    {"one", "settings", "functions", "formats", "data_type_families", "table_functions"}
)
"""System tables that reveal nothing about stored data."""
LISTINGS: Final = {
    "tables": frozenset({"database", "name", "table", "engine", "comment", "is_temporary", "uuid"}),
    "columns": frozenset(
        {"database", "table", "name", "type", "position", "comment", "default_kind"}
        | {"default_expression", "is_in_primary_key", "is_in_sorting_key", "is_in_partition_key"}
        | {"numeric_precision", "numeric_scale", "datetime_precision", "character_octet_length"}
    ),
    "databases": frozenset({"name", "engine", "comment", "uuid"}),
}
"""System listings and their accepted columns; others count rows and bytes of all tenants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Relations of the store at one point in time."""

    database: str
    tenant_columns: dict[str, str]
    """Tables and views with tenant data, and their tenant column."""
    known: frozenset[str]
    """All relations of the database, readable or not."""
    relations: frozenset[str]
    """`database.name` of all relations of all databases, in lower case."""
    denied: frozenset[str]
    """Relations that may not be read, in lower case; those of this database also unqualified."""
    hidden_columns: frozenset[str]
    """Columns of system listings that include data of all tenants."""

    @property
    def readable(self) -> list[str]:
        """Readable relations, sorted."""
        return sorted({*self.tenant_columns, *(PUBLIC & self.known)})

    def is_relation(self, name: str) -> bool:
        """Return whether a qualified name is a relation."""
        return name.lower() in self.relations

    def is_denied(self, name: str) -> bool:
        """Return whether a name, qualified or not, is a relation that may not be read."""
        return name.lower() in self.denied

    def filters(self, tenant: str, sent: Mapping[str, Sequence[str]] | None = None) -> str:
        """Return the value of `additional_table_filters` that restricts every table to a tenant.

        `sent` has checked conditions of the caller by table, of which one must hold.
        The engine uses the first entry that matches a table's name or alias. Tenant tables come first, so
        that an alias cannot give them the filter of a listing. Relations that may not be read are filtered
        to be empty, in case a statement reaches one despite all checks.
        """
        # Escape every byte, so that no tenant name can end the string literal.
        value = "".join(f"\\x{byte:02x}" for byte in tenant.encode())
        rules = {
            f"{self.database}.{name}": " OR ".join(
                f"{column} = '{value}'{also}"
                for also in [f" AND {each}" for each in (sent or {}).get(table, ())] or [""]
            )
            for table, column in sorted(self.tenant_columns.items())
            # On a cluster the shards read the local tables, with the same settings.
            for name in (table, f"{table}_local")
            if name in self.known
        }
        shown = ", ".join(f"'{name}'" for name in self.readable)
        read = {*self.readable, *PUBLIC}
        empty = self.known - {f"{name}{end}" for name in read for end in ("", "_local")}
        rules |= {f"{self.database}.{name}": "0" for name in sorted(empty)}
        rules |= {
            "system.tables": f"database = '{self.database}' AND name IN [{shown}]",
            "system.columns": f"database = '{self.database}' AND table IN [{shown}]",
            "system.databases": f"name = '{self.database}'",
        }
        return "{" + ", ".join(f"{_quoted(key)}: {_quoted(rules[key])}" for key in rules) + "}"


class CatalogueCache:
    """Cache of the catalogue, at most half a minute old."""

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
        """Return the current catalogue."""
        with self._lock:
            if self._seen is None or self._monotonic() - self._seen_at > REFRESH_SECONDS:
                self._seen = build_catalogue(
                    self._database,
                    tables=self._rows(query("sql_tables")),
                    columns=self._rows(query("sql_tenant_columns")),
                    system_columns=self._rows(query("sql_system_columns")),
                )
                self._seen_at = self._monotonic()
            return self._seen


def build_catalogue(
    database: str,
    *,
    tables: Iterable[tuple[str, ...]],
    columns: Iterable[tuple[str, ...]],
    system_columns: Iterable[tuple[str, ...]],
) -> Catalogue:
    """Build a catalogue from relations with their engines, tenant columns, and columns of lists."""
    found = [(row[0], row[1], row[2]) for row in tables]
    engines = {name: engine for owner, name, engine in found if owner == database}
    local = {f"{name}_local" for name, engine in engines.items() if engine == "Distributed"}
    tenant_columns = {
        table: column
        for table, column in columns
        if column in TENANT_COLUMNS
        and _can_be_read(engines.get(table, ""))
        and table not in local  # a part of the rows
    }
    open_columns = frozenset[str]().union(*LISTINGS.values())
    open_names = {f"system.{name}" for name in LISTINGS.keys() | SYSTEM}
    open_names |= {f"{database}.{name}".lower() for name in {*tenant_columns, *PUBLIC}}
    relations = frozenset(f"{owner}.{name}".lower() for owner, name, _ in found)
    denied = relations - open_names
    own = f"{database}.".lower()
    return Catalogue(
        database=database,
        tenant_columns=tenant_columns,
        known=frozenset(engines),
        relations=relations,
        denied=denied | {name.removeprefix(own) for name in denied if name.startswith(own)},
        hidden_columns=frozenset(name for (name,) in system_columns) - open_columns,
    )


def _can_be_read(engine: str) -> bool:
    """Return whether rows can be filtered.

    Null tables are empty, and a materialized view would expose its target unfiltered.
    """
    return engine.endswith("MergeTree") or engine in {"View", "Distributed"}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
