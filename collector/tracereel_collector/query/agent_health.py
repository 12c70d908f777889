"""Recent health and spending of agents of all tenants, for operator alerts."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from string import Template
from typing import Any, Final

from tracereel_collector.model import AgentHealth, Spending
from tracereel_collector.query.costs import Prices
from tracereel_collector.query.store_reader import StoreReader
from tracereel_collector.store.sql import query

LATELY_SECONDS: Final = 300
DAY_SECONDS: Final = 24 * 3600


class AgentsLately:
    """Queries for agent health and spending."""

    def __init__(self, store: StoreReader, *, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._prices = Prices(store)
        self._now = now

    def health(self) -> list[AgentHealth]:
        """Return all agents that were active in the last five minutes."""
        return [
            AgentHealth(
                tenant=row[0],
                agent=row[1],
                ended=int(row[2]),
                failed=int(row[3]),
                retries=int(row[4]),
                fallbacks=int(row[5]),
                confidence=float(row[6]) / int(row[7]) if int(row[7]) else None,
            )
            for row in self._rows("agent_health", since=self._before(LATELY_SECONDS))
        ]

    def spending(self) -> list[Spending]:
        """Return the recent and the daily average spending on models, per tenant."""
        costs = self._prices.costs()
        rows = self._rows(
            "spending",
            unpriced=costs.of_tokens("a.unpriced_tokens", at="a.minute"),
            since=self._before(LATELY_SECONDS),
            day=self._before(DAY_SECONDS),
            **costs.parameters,
        )
        return [
            Spending(
                tenant=row[0],
                usd_per_hour=float(row[1]) * 3600 / LATELY_SECONDS,
                usd_per_hour_of_day=float(row[2])
                * 3600
                / max(LATELY_SECONDS, self._now() - int(row[3])),
            )
            for row in rows
        ]

    def _before(self, seconds: float) -> str:
        return datetime.fromtimestamp(self._now() - seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")

    def _rows(self, name: str, *, unpriced: str = "", **parameters: str) -> list[list[Any]]:
        statement = Template(query(name)).substitute(unpriced=unpriced)
        answer = self._store.select(statement, parameters, fmt="JSONCompactEachRow")
        return [json.loads(line) for line in answer.splitlines()]
