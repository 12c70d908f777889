"""How agents fared in the last minutes and what they cost, of all tenants: for the operator's alerts."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from tracereel_collector.model import AgentHealth, Spending
from tracereel_collector.query.replay import Selects
from tracereel_collector.store.sql import query

LATELY_SECONDS: Final = 300
DAY_SECONDS: Final = 24 * 3600


class AgentsLately:
    """Two questions to the store."""

    def __init__(self, store: Selects, *, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now = now

    def health(self) -> list[AgentHealth]:
        """Every agent that did something in five minutes."""
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
        """What models cost, at the rate of five minutes and on average over a day."""
        rows = self._rows(
            "spending", since=self._before(LATELY_SECONDS), day=self._before(DAY_SECONDS)
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

    def _rows(self, name: str, **parameters: str) -> list[list[Any]]:
        answer = self._store.select(query(name), parameters, fmt="JSONCompactEachRow")
        return [json.loads(line) for line in answer.splitlines()]
