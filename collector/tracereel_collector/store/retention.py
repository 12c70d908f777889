"""How long rows are kept: a rule for each tenant, and the statements that remove what is older."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final, Protocol

import msgspec

from tracereel_collector.store.shards import SHARDED, Shards
from tracereel_collector.store.sql import query
from tracereel_collector.store.tab_separated import rows_of

UNDATED: Final = (
    ("run_links", "tenant", "toDate(ingested_at)"),
    ("score_tellings", "tenant", "toDate(updated_at)"),
    ("span_names", "TenantId", "toDate(LastAt)"),
)
"""Small tables without partitions by day: the tenant's column, and the day of a row."""


class Keeps(Protocol):
    """What retention needs of the store."""

    def rows(self, statement: str, /) -> list[tuple[str, ...]]:
        """Run a query and return its rows as text."""
        ...

    def select(self, statement: str, parameters: Mapping[str, Any], /, *, fmt: str) -> bytes:
        """Run a bound query; the answer's bytes in a ClickHouse format."""
        ...

    def change(self, statement: str, parameters: Mapping[str, Any], /) -> None:
        """Run a bound statement that changes rows; returns when they have changed."""
        ...


class Rule(msgspec.Struct, array_like=True, frozen=True):
    """One line of `retention_rules.sql`."""

    tenant: str
    days: int
    """After the day of arrival; 0 is for ever."""
    set_at: str
    set_by: str


@dataclass(frozen=True, slots=True)
class Limits:
    """The first day that is kept, of every tenant; None where all are."""

    by_tenant: Mapping[str, date | None]
    others: date | None

    @classmethod
    def of(cls, rules: list[Rule], *, default_days: int, today: date) -> "Limits":
        """What the rules mean today; tenants without one are kept as long as `default_days` says."""
        return cls(
            {rule.tenant: _first_kept(rule.days, today) for rule in rules},
            _first_kept(default_days, today),
        )

    def groups(self) -> Iterator[tuple[date, list[str], bool]]:
        """First day kept, tenants, and whether those are meant or all but those."""
        by_day: dict[date, list[str]] = {}
        for tenant, day in self.by_tenant.items():
            if day is not None:
                by_day.setdefault(day, []).append(tenant)
        for day, tenants in sorted(by_day.items()):
            yield day, sorted(tenants), True
        if self.others is not None:
            yield self.others, sorted(self.by_tenant), False


@dataclass(frozen=True, slots=True)
class Kept:
    """A table whose rows have a tenant and a day."""

    table: str
    """Rows of all shards are read from it."""
    changed: str
    """The table as a statement names it that changes its rows, on all shards where there are some."""
    tenant: str
    day: str


@dataclass(frozen=True, slots=True)
class Expired:
    """Rows of one table that are too old."""

    table: str
    changed: str
    where: str
    parameters: Mapping[str, Any]
    partitions: Mapping[str, int]
    """How many are in each."""

    @property
    def rows(self) -> int:
        """All of them."""
        return sum(self.partitions.values())


def rules_of(store: Keeps) -> list[Rule]:
    """The rules in force, by tenant."""
    answer = store.select(query("retention_rules"), {}, fmt="JSONCompactEachRow")
    return msgspec.json.Decoder(Rule, strict=False).decode_lines(answer)


def set_rule(store: Keeps, tenant: str, days: int | None, *, by: str) -> None:
    """Keep a tenant's rows so many days, 0 for ever; None: as the collector is set."""
    store.change(query("set_retention"), {"tenant": tenant, "days": days, "by": by})


def oldest_day(store: Keeps, tenant: str) -> str | None:
    """The day of arrival of the oldest event or span."""
    found = store.select(query("oldest_day"), {"tenant": tenant}, fmt="TabSeparated").decode()
    return None if found.strip() in ("", "\\N") else found.strip()


def kept_tables(daily: Iterable[tuple[str, ...]], sharded: Iterable[tuple[str, ...]]) -> list[Kept]:
    """Tables that keep rows by day, and the few without days, on one server or on all of a cluster.

    A cluster's rows are in tables of another name on every shard, and are changed on all of them.
    """
    shards = Shards.of(sharded)
    return [
        Kept(name, shards.changed(name), tenant, day)
        for name, tenant, day in (
            *((shards.name(table), tenant, day) for table, tenant, day in daily),
            *UNDATED,
        )
    ]


def expired(store: Keeps, limits: Limits) -> Iterator[Expired]:
    """What is too old, table by table as it is found."""
    groups = list(limits.groups())
    if not groups:
        return
    daily, sharded = store.rows(query("daily_tables")), store.rows(SHARDED)
    for kept in kept_tables(daily, sharded):
        table, tenant, day = kept.table, kept.tenant, kept.day
        conditions: list[str] = []
        parameters: dict[str, Any] = {}
        for number, (first_kept, tenants, are_meant) in enumerate(groups):
            which = "IN" if are_meant else "NOT IN"
            conditions.append(
                f"(`{tenant}` {which} {{tenants{number}:Array(String)}}"
                f" AND {day} < {{day{number}:Date}})"
            )
            parameters |= {f"tenants{number}": tenants, f"day{number}": first_kept.isoformat()}
        where = " OR ".join(conditions)
        answer = store.select(
            f"SELECT _partition_id, count() FROM `{table}` WHERE {where} GROUP BY 1 ORDER BY 1",
            parameters,
            fmt="TabSeparated",
        )
        if partitions := {name: int(rows) for name, rows in rows_of(answer)}:
            yield Expired(table, kept.changed, where, parameters, partitions)


def whole_partitions(store: Keeps, found: Expired) -> list[str]:
    """Those in which nothing else is."""
    answer = store.select(
        f"SELECT _partition_id FROM `{found.table}` WHERE _partition_id IN {{found:Array(String)}}"
        f" GROUP BY 1 HAVING countIf({found.where}) = count()",
        {**found.parameters, "found": list(found.partitions)},
        fmt="TabSeparated",
    )
    return answer.decode().split()


def drop_partitions(store: Keeps, found: Expired, partitions: list[str]) -> None:
    """Remove them whole, which costs next to nothing."""
    each = ", ".join(f"DROP PARTITION ID '{_checked(name)}'" for name in partitions)
    store.change(f"ALTER TABLE {found.changed} {each}", {})


def delete_rows(store: Keeps, found: Expired, partitions: Iterable[str]) -> None:
    """Remove them from among others, which writes their partitions anew."""
    each = ", ".join(
        f"DELETE IN PARTITION ID '{_checked(name)}' WHERE {found.where}" for name in partitions
    )
    store.change(f"ALTER TABLE {found.changed} {each}", found.parameters)


def _checked(partition: str) -> str:
    """As ClickHouse names them: digits, or `all` where there is but one."""
    if not partition.isalnum():
        raise ValueError(f"{partition!r} is not the id of a partition")
    return partition


def _first_kept(days: int, today: date) -> date | None:
    return today - timedelta(days=days) if days else None
