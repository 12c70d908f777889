"""Retention: rules by tenant, the statements that delete older rows, and silent emitters."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

import msgspec

from tracereel_collector.runtime.clock import Dating
from tracereel_collector.store.clickhouse import ClickHouseStore, rows_of
from tracereel_collector.store.shards import Shards
from tracereel_collector.store.sql import query

UNDATED: Final = (
    ("run_links", "tenant", "toDate(ingested_at)"),
    ("score_tellings", "tenant", "toDate(updated_at)"),
    ("span_names", "TenantId", "toDate(LastAt)"),
)
"""Small tables without daily partitions: name, tenant column, day of a row."""
SILENT_DAYS: Final = 90
"""Days after which an emitter that sends nothing is forgotten."""
MAX_IDS: Final = 5_000
"""Emitters per statement; the rest is removed in the next sweep."""
_EMITTER_TABLES: Final = (("emitters", "received_at"), ("emitter_numbers", "heard_at"))
_IDS = msgspec.json.Decoder(tuple[str, list[str]])


class RetentionPolicy(msgspec.Struct, array_like=True, frozen=True):
    """Row of `retention_rules.sql`."""

    tenant: str
    days: int
    """Days after the day of arrival; 0 keeps rows for ever."""
    set_at: str
    set_by: str


@dataclass(frozen=True, slots=True)
class Limits:
    """First day that is kept, by tenant; None keeps all."""

    by_tenant: Mapping[str, date | None]
    others: date | None

    @classmethod
    def of(cls, rules: list[RetentionPolicy], *, default_days: int, today: date) -> "Limits":
        """Apply rules to today; tenants without a rule get `default_days`."""
        return cls(
            {rule.tenant: _first_kept(rule.days, today) for rule in rules},
            _first_kept(default_days, today),
        )

    def groups(self) -> Iterator[tuple[date, list[str], bool]]:
        """Yield first day kept, tenants, and True for these tenants or False for all others."""
        by_day: dict[date, list[str]] = {}
        for tenant, day in self.by_tenant.items():
            if day is not None:
                by_day.setdefault(day, []).append(tenant)
        for day, tenants in sorted(by_day.items()):
            yield day, sorted(tenants), True
        if self.others is not None:
            yield self.others, sorted(self.by_tenant), False


@dataclass(frozen=True, slots=True)
class Expired:
    """Expired rows of one table."""

    table: str
    """Table to read, which covers all shards."""
    shards: Shards
    """Where its rows are changed."""
    where: str
    parameters: Mapping[str, Any]
    partitions: Mapping[str, int]
    """Number of expired rows by partition."""

    @property
    def rows(self) -> int:
        """Total number of expired rows."""
        return sum(self.partitions.values())


def rules_of(store: ClickHouseStore) -> list[RetentionPolicy]:
    """Return the current rules, ordered by tenant."""
    answer = store.select(query("retention_rules"), {}, fmt="JSONCompactEachRow")
    return msgspec.json.Decoder(RetentionPolicy, strict=False).decode_lines(answer)


def set_rule(
    store: ClickHouseStore, tenant: str, days: int | None, *, by: str, now_unix_nano: int
) -> None:
    """Set a tenant's retention in days; 0 is for ever, None restores the default."""
    store.change(
        query("set_retention"), {"tenant": tenant, "days": days, "by": by, "now": now_unix_nano}
    )


def oldest_day(store: ClickHouseStore, tenant: str) -> str | None:
    """Return the arrival day of the oldest event or span; None if there is none."""
    found = store.select(query("oldest_day"), {"tenant": tenant}, fmt="TabSeparated").decode()
    return None if found.strip() in ("", "\\N") else found.strip()


def expired(store: ClickHouseStore, limits: Limits, dating: Dating) -> Iterator[Expired]:
    """Yield the expired rows, table by table."""
    groups = list(limits.groups())
    if not groups:
        return
    # On a cluster each shard has the rows in a local table, and changes apply to all shards.
    shards = Shards.of(store)
    daily = [(shards.name(table), *rest) for table, *rest in store.rows(query("daily_tables"))]
    for table, tenant, day in (*daily, *UNDATED):
        conditions: list[str] = []
        parameters: dict[str, Any] = {}
        for number, (first_kept, tenants, are_meant) in enumerate(groups):
            which = "IN" if are_meant else "NOT IN"
            conditions.append(
                f"(`{tenant}` {which} {{tenants{number}:Array(String)}}"
                f" AND {day} < {{day{number}:Date}}{_but_not(day, dating.kept_days(first_kept))})"
            )
            parameters |= {f"tenants{number}": tenants, f"day{number}": first_kept.isoformat()}
        where = " OR ".join(conditions)
        answer = store.select(
            f"SELECT _partition_id, count() FROM `{table}` WHERE {where} GROUP BY 1 ORDER BY 1",
            parameters,
            fmt="TabSeparated",
        )
        if partitions := {name: int(rows) for name, rows in rows_of(answer)}:
            yield Expired(table, shards, where, parameters, partitions)


def whole_partitions(store: ClickHouseStore, found: Expired) -> list[str]:
    """Return the partitions that contain only expired rows."""
    answer = store.select(
        f"SELECT _partition_id FROM `{found.table}` WHERE _partition_id IN {{found:Array(String)}}"
        f" GROUP BY 1 HAVING countIf({found.where}) = count()",
        {**found.parameters, "found": list(found.partitions)},
        fmt="TabSeparated",
    )
    return answer.decode().split()


def drop_partitions(found: Expired, partitions: list[str]) -> None:
    """Drop whole partitions, which is cheap."""
    each = ", ".join(f"DROP PARTITION ID '{_checked(name)}'" for name in partitions)
    found.shards.alter(found.table, each, {})


def delete_rows(found: Expired, partitions: Iterable[str]) -> None:
    """Delete rows from partitions with other rows, which rewrites the partitions."""
    each = ", ".join(
        f"DELETE IN PARTITION ID '{_checked(name)}' WHERE {found.where}" for name in partitions
    )
    found.shards.alter(found.table, each, found.parameters)


def silent_emitters(store: ClickHouseStore, dating: Dating) -> Iterator[tuple[str, str, list[str]]]:
    """Yield table, tenant and ids of emitters that have been silent too long."""
    first_kept = dating.today - timedelta(days=SILENT_DAYS)
    for table, at in _EMITTER_TABLES:
        answer = store.select(
            "SELECT tenant, groupArray(emitter_id) FROM ("
            f"SELECT tenant, emitter_id, toDate(max({at})) AS day FROM `{table}`"
            " GROUP BY tenant, emitter_id HAVING day < {first_kept:Date}"
            f"{_but_not('day', dating.kept_days(first_kept))}"
            f" ORDER BY tenant, emitter_id LIMIT {MAX_IDS}) GROUP BY tenant ORDER BY tenant",
            {"first_kept": first_kept.isoformat()},
            fmt="JSONCompactEachRow",
        )
        for tenant, ids in _IDS.decode_lines(answer):
            yield table, tenant, ids


def forget_emitters(store: ClickHouseStore, table: str, tenant: str, ids: list[str]) -> None:
    """Delete the rows of some emitters."""
    Shards.of(store).alter(
        table,
        "DELETE WHERE tenant = {tenant:String} AND emitter_id IN {ids:Array(String)}",
        {"tenant": tenant, "ids": ids},
    )


def _but_not(day: str, kept: Iterable[tuple[date, date]]) -> str:
    """Return a condition that excludes ranges of days."""
    return "".join(
        f" AND NOT ({day} BETWEEN toDate('{first}') AND toDate('{last}'))" for first, last in kept
    )


def _checked(partition: str) -> str:
    """Validate a partition id: digits, or `all` in an unpartitioned table."""
    if not partition.isalnum():
        raise ValueError(f"{partition!r} is not the id of a partition")
    return partition


def _first_kept(days: int, today: date) -> date | None:
    return today - timedelta(days=days) if days else None
