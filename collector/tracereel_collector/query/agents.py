"""Agent statistics: over a window, and the recent health and spending that alerts watch."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from string import Template
from typing import Any, Final, get_origin

import msgspec

from tracereel_collector.errors import UnknownResourceError
from tracereel_collector.model import AgentHealth, Spending, UnpricedCalls
from tracereel_collector.query.costs import Costs, Prices, shown_unpriced
from tracereel_collector.query.durations import DurationCounts
from tracereel_collector.query.store_reader import read_rows, usd
from tracereel_collector.query.window import SECOND, Window, hour_of, iso
from tracereel_collector.store.price_names import PriceStore
from tracereel_collector.store.rollup_agents import EXACT_DURATIONS
from tracereel_collector.store.sql import query

MAX_AGENTS = 200
MAX_POINTS = 500
TOP_VALUES = 20
EXACT_EXECUTIONS: Final = 5_000
"""Executions up to which percentiles are those of all values."""
CONFIDENCE_STEPS = 10
LATELY_SECONDS: Final = 300
DAY_SECONDS: Final = 24 * 3600
_HOUR = 3600


class _Sums(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `agents.sql` with all columns."""

    agent: str
    bucket: int
    started: int
    succeeded: int
    failed: int
    cancelled: int
    retries: int
    fallbacks: int
    decisions: int
    model_calls: int
    tool_calls: int
    call_tokens: int
    execution_tokens: int
    call_nano_usd: int
    execution_nano_usd: int
    duration_us: int
    confidence_ppm: int
    unpriced_nano_usd: int
    """Calculated cost of calls without a reported cost."""
    shortest_us: int
    longest_us: int
    durations: dict[int, int]
    confidences: dict[int, int]
    errors: dict[str, int]
    categories: dict[str, int]
    models: dict[str, int]
    unpriced: dict[str, int]
    """Tokens of models without a price."""
    exact: tuple[int, ...] | None = None
    """Durations of all executions in microseconds; `None` if they were not read."""

    @property
    def took(self) -> DurationCounts:
        """Durations of the executions."""
        return DurationCounts(
            counts=self.durations,
            shortest=self.shortest_us,
            longest=self.longest_us,
            total=self.duration_us,
            exact=self.exact,
        )


_SUMMED = msgspec.structs.fields(_Sums)[2:]
_BOUNDS: Final = {"shortest_us": "min", "longest_us": "max"}
_NUMBERS = [each.name for each in _SUMMED if each.type is int and each.name not in _BOUNDS]
_SHOWN_COUNTS = (
    *("started", "succeeded", "failed", "cancelled", "retries", "fallbacks", "decisions"),
    *("model_calls", "tool_calls"),
)
_MAPS = [field.name for field in _SUMMED if get_origin(field.type) is dict]


def _selected(costs: Costs) -> str:
    found = {name: f"sum(a.{name})" for name in _NUMBERS}
    found["unpriced_nano_usd"] = costs.of_tokens("a.unpriced_tokens", at="a.minute")
    bounds = [f"{function}(a.{name})" for name, function in _BOUNDS.items()]
    maps = {name: f"sumMap(a.{name})" for name in _MAPS}
    maps["unpriced"] = costs.unpriced("a.unpriced_tokens")
    return ",\n    ".join([*found.values(), *bounds, *maps.values()])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """Window in whole minutes, divided into steps from its origin; unix seconds."""

    start: int
    end: int
    origin: int
    step: int

    @classmethod
    def of(cls, window: Window, *, points: int) -> "_Grid":
        assert window.start is not None and window.end is not None  # noqa: S101, PT018
        start, end = window.start // SECOND // 60 * 60, -(-window.end // SECOND // 60) * 60
        end = max(end, start + 60)
        unit = 60 if end - start <= points * _HOUR else _HOUR
        origin = start // unit * unit
        return cls(
            start=start, end=end, origin=origin, step=-(-(end - origin) // (points * unit)) * unit
        )

    def parameters(self) -> dict[str, int]:
        """Return the parameters of `agents.sql`.

        Hourly rows are used only if no step divides an hour.
        """
        first = -(-self.start // _HOUR) * _HOUR
        last = self.end // _HOUR * _HOUR
        cut = self.points > 1 and (self.step % _HOUR or self.origin % _HOUR)
        if cut or last <= first:
            first = last = self.end
        return {
            "from": self.start,
            "to": self.end,
            "origin": self.origin,
            "step": self.step,
            "first_hour": first,
            "last_hour": last,
        }

    @property
    def first_day(self) -> str:
        """First day of arrival, with a day of margin because a sender's clock may be ahead."""
        return hour_of((self.start - DAY_SECONDS) * SECOND)[:10]

    @property
    def points(self) -> int:
        return -(-(self.end - self.origin) // self.step)


class Agents:
    """Queries of `GET /v1/agents` and `GET /v1/agents/{name}`, and of alerts.

    Windows must have both ends.
    """

    def __init__(self, store: PriceStore, *, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._prices = Prices(store)
        self._now = now

    def list_document(self, tenant: str, window: Window, *, points: int, limit: int) -> bytes:
        """Return all agents with totals and a series of executions, busiest first."""
        grid = _Grid.of(window, points=points)
        steps: dict[str, dict[int, _Sums]] = {}
        for row in self._sums(tenant, grid, agent=""):
            steps.setdefault(row.agent, {})[row.bucket] = row
        sums = [_added(name, rows.values()) for name, rows in steps.items()]
        sums.sort(key=lambda row: (-row.started - row.model_calls, row.agent))
        agents = [
            {**_shown(row, grid), "series": _sparkline(steps[row.agent], grid)}
            for row in sums[:limit]
        ]
        return msgspec.json.encode({"agents": agents, **_window(grid)})

    def document(self, tenant: str, agent: str, window: Window, *, points: int) -> bytes:
        """Return one agent with totals and a full series."""
        grid = _Grid.of(window, points=points)
        steps = {row.bucket: row for row in self._sums(tenant, grid, agent=agent)}
        if not steps:
            self._check_known(tenant, agent)
        series = [
            {"from": iso((grid.origin + n * grid.step) * SECOND), **_point(steps.get(n))}
            for n in range(grid.points)
        ]
        whole = _added(agent, steps.values())
        spread = whole.took.spread()
        return msgspec.json.encode(
            {**_shown(whole, grid), "durations": spread, "series": series, **_window(grid)}
        )

    def health(self) -> list[AgentHealth]:
        """Return all agents that were active in the last five minutes."""
        since = self._before(LATELY_SECONDS)
        return read_rows(self._store, query("agent_health"), AgentHealth, since=since)

    def spending(self) -> list[Spending]:
        """Return the recent and the daily average spending on models, per tenant."""
        costs = self._prices.costs()
        unpriced = costs.of_tokens("a.unpriced_tokens", at="a.minute")
        return read_rows(
            *(self._store, Template(query("spending")).substitute(unpriced=unpriced), Spending),
            since=self._before(LATELY_SECONDS),
            day=self._before(DAY_SECONDS),
            lately=LATELY_SECONDS,
            now=self._now(),
            **costs.parameters,
        )

    def unpriced(self) -> list[UnpricedCalls]:
        """Return the tenants with calls whose cost is unknown because no price is known."""
        self._prices.costs()  # looks up the prices of new models
        return read_rows(self._store, query("unpriced_of_tenants"), UnpricedCalls)

    def _before(self, seconds: float) -> str:
        return datetime.fromtimestamp(self._now() - seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")

    def _sums(self, tenant: str, grid: _Grid, *, agent: str) -> list[_Sums]:
        costs = self._prices.costs()
        rows = read_rows(
            *(self._store, Template(query("agents")).substitute(sums=_selected(costs)), _Sums),
            **costs.parameters,
            tenant=tenant,
            agent=agent,
            limit=MAX_AGENTS * MAX_POINTS,
            first_day=grid.first_day,
            **grid.parameters(),
        )
        if sum(sum(row.durations.values()) for row in rows) > EXACT_EXECUTIONS:
            return rows
        exact = self._durations(tenant, grid, agent=agent)
        return [_with_exact(row, exact.get((row.agent, row.bucket), ())) for row in rows]

    def _durations(
        self, tenant: str, grid: _Grid, *, agent: str
    ) -> dict[tuple[str, int], tuple[int, ...]]:
        """Return all durations by agent and time step."""
        rows = read_rows(
            self._store,
            Template(query("agent_durations")).substitute(EXACT_DURATIONS),
            tuple[str, int, tuple[int, ...]],
            tenant=tenant,
            agent=agent,
            limit=EXACT_EXECUTIONS,
            first_day=grid.first_day,
            **{name: value for name, value in grid.parameters().items() if "hour" not in name},
        )
        return {(name, bucket): values for name, bucket, values in rows}

    def _check_known(self, tenant: str, agent: str) -> None:
        known = self._store.select(
            "SELECT 1 FROM agent_hours WHERE tenant = {tenant:String} AND agent = {agent:String} LIMIT 1",
            {"tenant": tenant, "agent": agent},
            fmt="TabSeparated",
        )
        if not known:
            raise UnknownResourceError(f"Agent not found: {agent!r}", hint="see GET /v1/agents")


def _window(grid: _Grid) -> dict[str, Any]:
    return {
        "window": {"from": iso(grid.start * SECOND), "to": iso(grid.end * SECOND)},
        "step_seconds": grid.step,
    }


def _with_exact(row: _Sums, values: tuple[int, ...]) -> _Sums:
    """Return a row with its exact durations, if they are as many as were counted."""
    # The events may be gone before the sums: these are kept by months.
    known = sum(count for count in row.durations.values() if count > 0)
    return msgspec.structs.replace(row, exact=values) if len(values) == known else row


def _added(agent: str, rows: Iterable[_Sums]) -> _Sums:
    """Return the sum of rows."""
    rows = list(rows)
    numbers = [sum(getattr(row, name) for row in rows) for name in _NUMBERS]
    shortest = min((row.shortest_us for row in rows), default=0)
    longest = max((row.longest_us for row in rows), default=0)
    maps: list[dict[Any, int]] = []
    for name in _MAPS:
        counts: Counter[Any] = Counter()
        for row in rows:
            counts.update(getattr(row, name))
        maps.append(dict(counts))
    exact = [row.exact for row in rows]
    known = None if None in exact else tuple(chain.from_iterable(filter(None, exact)))
    values: list[Any] = [*numbers, shortest, longest, *maps]
    added = _Sums(agent, 0, *values)
    return msgspec.structs.replace(added, exact=known)


def _sparkline(steps: Mapping[int, _Sums], grid: _Grid) -> dict[str, list[int]]:
    points = [steps.get(n) for n in range(grid.points)]
    return {
        "executions": [_ended(row) if row else 0 for row in points],
        "failed": [row.failed if row else 0 for row in points],
    }


def _ended(row: _Sums) -> int:
    return row.succeeded + row.failed + row.cancelled


def _shown(row: _Sums, grid: _Grid) -> dict[str, Any]:
    ended = _ended(row)
    minutes = (grid.end - grid.start) / 60
    return {
        "agent": row.agent,
        "executions": ended,
        "executions_per_minute": round(ended / minutes, 6),
        "error_rate": round(row.failed / ended, 6) if ended else None,
        **{name: getattr(row, name) for name in _SHOWN_COUNTS},
        **_usage(row),
        "latency": row.took.latency(),
        "confidence": confidence(row.confidences, row.confidence_ppm),
        "errors": _top(row.errors),
        "error_categories": _top(row.categories),
        "models": _top(row.models),
    }


def _point(row: _Sums | None) -> dict[str, Any]:
    row = row or _added("", ())
    mean = confidence(row.confidences, row.confidence_ppm)["mean"]
    return {
        "executions": _ended(row),
        "failed": row.failed,
        "retries": row.retries,
        "fallbacks": row.fallbacks,
        "p50_ms": row.took.percentile(0.5),
        "p95_ms": row.took.percentile(0.95),
        "confidence": mean,
        **_usage(row),
    }


def _usage(row: _Sums) -> dict[str, Any]:
    """Return tokens and cost of model calls; those of executions if there are no calls."""
    nano_usd = row.call_nano_usd + row.unpriced_nano_usd or row.execution_nano_usd
    return {
        "tokens": row.call_tokens or row.execution_tokens,
        "cost_usd": usd(nano_usd),
        **shown_unpriced(row.unpriced),
    }


def _top(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the most frequent values; counts of deleted rows may be 0 or less."""
    known = sorted(((-n, name) for name, n in counts.items() if n > 0))
    return {name: -n for n, name in known[:TOP_VALUES]}


def confidence(counts: Mapping[int, int], total_ppm: int) -> dict[str, object]:
    """Return the mean confidence and the number of executions per tenth."""
    number = sum(counts.values())
    return {
        "mean": round(total_ppm / 1e6 / number, 6) if number > 0 else None,
        "tenths": [max(0, counts.get(tenth, 0)) for tenth in range(CONFIDENCE_STEPS)],
    }
