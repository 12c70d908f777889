"""Periodic evaluation of alert conditions and notification of alerts that start or end."""

import time
from collections import Counter as Occurrences
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import structlog
from prometheus_client import Counter

from tracereel_collector.errors import CollectorError
from tracereel_collector.ops.alerts import conditions
from tracereel_collector.ops.alerts.conditions import CONDITIONS, ConditionReading, Counts, Key
from tracereel_collector.query.agents import Agents
from tracereel_collector.queue import DurableQueue
from tracereel_collector.runtime.periodic_task import PeriodicTask
from tracereel_collector.runtime.tenant_shares import SharePolicy

RUNBOOK: Final = "dashboards/RUNBOOK.md"
MAX_ALERTS: Final = 1_000
"""Alerts tracked at once; more are ignored."""
_SHARES: Final = SharePolicy(has_several_tenants=lambda: True)
"""Fair shares of tracked alerts, so that one tenant's agents cannot hide other alerts."""
HOUR: Final = 3600.0
log = structlog.get_logger()


@dataclass(slots=True)
class _Alert:
    reading: ConditionReading
    since: float
    """Time when the limit was crossed, in seconds of `steady`."""
    notified: bool = False
    ended: float | None = None


class Watcher:
    """Thread that evaluates alerts; failed notifications are retried in the next round."""

    def __init__(
        self,
        queue: DurableQueue,
        agents: Agents,
        post: Callable[[dict[str, Any]], bool],
        *,
        every_seconds: float,
        sent: Counter,
        now: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue = queue
        self._agents = agents
        self._post = post
        self._sent = sent
        self._now = now
        self._steady = steady
        self._alerts: dict[Key, _Alert] = {}
        self._history: deque[tuple[float, Counts]] = deque()
        self._rounds = PeriodicTask("alerts", self.look, every_seconds=every_seconds)
        self.start, self.stop = self._rounds.start, self._rounds.stop

    def look(self) -> None:
        """Evaluate all conditions once and post alerts that changed."""
        now = self._steady()
        self._follow(list(self._readings(now)), now)
        changed = [a for a in self._alerts.values() if self._is_news(a, now)]
        if not changed:
            return
        if self._post(_message(changed, since_unix=self._now() - now)):
            self._sent.labels("sent").inc(len(changed))
            for alert in changed:
                alert.notified = alert.ended is None
                if alert.ended is not None:
                    del self._alerts[alert.reading.key]
        else:
            self._sent.labels("failed").inc(len(changed))

    def _readings(self, now: float) -> Iterable[ConditionReading]:
        counts = self._queue.counters()
        self._history.append((now, counts))
        while now - self._history[0][0] > HOUR:
            self._history.popleft()
        yield from conditions.of_pressure(self._queue.pressure(), self._queue.pending_bytes)
        yield from conditions.of_counts(
            counts, self._counts(now - 300), self._counts(now - 900), self._history[0][1]
        )
        try:
            yield from conditions.of_agents(self._agents.health())
            yield from conditions.of_spending(self._agents.spending())
            yield from conditions.of_unpriced(self._agents.unpriced())
        except CollectorError as error:
            # The store is unreachable, which StoreLagging reports: keep the agent alerts as they were.
            log.warning("alerts_without_store", reason=error.message)
            yield from [
                alert.reading
                for alert in list(self._alerts.values())
                if alert.reading.name.startswith(("Agent", "Cost", "Models"))
            ]

    def _counts(self, since: float) -> Counts:
        return next(counts for at, counts in self._history if at >= since)

    def _follow(self, readings: list[ConditionReading], now: float) -> None:
        crossed = {r.key: r for r in readings if CONDITIONS[r.name].is_crossed(r.value)}
        held = Occurrences(alert.reading.tenant for alert in self._alerts.values())
        for key, reading in crossed.items():
            alert = self._alerts.get(key)
            if alert is not None:
                alert.reading, alert.ended = reading, None
            elif not _SHARES.reason(
                held=held[reading.tenant], used=len(self._alerts), total=MAX_ALERTS, amount=1
            ):
                self._alerts[key] = _Alert(reading, now)
                held[reading.tenant] += 1
        for key in self._alerts.keys() - crossed.keys():
            if not self._alerts[key].notified:
                del self._alerts[key]
            elif self._alerts[key].ended is None:
                self._alerts[key].ended = now

    def _is_news(self, alert: _Alert, now: float) -> bool:
        if alert.ended is not None:
            return True
        return not alert.notified and now - alert.since >= CONDITIONS[alert.reading.name].seconds


def _message(alerts: list[_Alert], *, since_unix: float) -> dict[str, Any]:
    """Return an Alertmanager webhook message, for compatibility with existing receivers.

    `since_unix` is the unix time at second 0 of the alerts' clock.
    """
    firing = any(alert.ended is None for alert in alerts)
    return {
        "version": "4",
        "receiver": "tracereel",
        "status": "firing" if firing else "resolved",
        "alerts": [_shown(alert, since_unix) for alert in alerts],
    }


def _shown(alert: _Alert, since_unix: float) -> dict[str, Any]:
    reading, condition = alert.reading, CONDITIONS[alert.reading.name]
    subject = reading.labels[0][1] if reading.labels else ""
    side = "below" if condition.below else "above"
    made = {
        "status": "firing" if alert.ended is None else "resolved",
        "labels": {
            "alertname": reading.name,
            "severity": condition.severity,
            **dict(reading.labels),
        },
        "annotations": {
            "summary": condition.summary.format(subject=subject),
            "description": f"{reading.value:.4g}, {side} the limit of {condition.limit:g}.",
            "runbook": f"{RUNBOOK}#{reading.name.lower()}",
        },
        "startsAt": _time(since_unix + alert.since),
    }
    return made if alert.ended is None else made | {"endsAt": _time(since_unix + alert.ended)}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
