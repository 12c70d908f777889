"""Alert conditions: the Prometheus rules that the collector can evaluate itself."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tracereel_collector.model import AgentHealth, Spending, UnpricedCalls
from tracereel_collector.telemetry import Pressure

Counts = Mapping[tuple[str, str], int]
Key = tuple[str, tuple[tuple[str, str], ...]]

LEAST_EXECUTIONS: Final = 3
"""Minimum executions of an agent in five minutes; rates of fewer are not meaningful."""
LEAST_USD_PER_HOUR: Final = 1.0


@dataclass(frozen=True, slots=True)
class AlertCondition:
    """Limit and how long it must be crossed; named as in the Prometheus rules."""

    limit: float
    seconds: float
    severity: str
    summary: str
    below: bool = False

    def is_crossed(self, value: float) -> bool:
        """Return whether a value crosses the limit."""
        return value < self.limit if self.below else value > self.limit


WARNING, CRITICAL = "warning", "critical"
CONDITIONS: Final = {
    "StoreLagging": AlertCondition(60, 300, WARNING, "The store is behind"),
    "QueueFilling": AlertCondition(0.7, 300, WARNING, "The queue fills up"),
    "DiskPressure": AlertCondition(4, 300, CRITICAL, "The disk is nearly full", below=True),
    "RecordsQuarantined": AlertCondition(0, 0, WARNING, "The store refuses {subject}"),
    "RecordsDamaged": AlertCondition(0, 0, CRITICAL, "{subject} are damaged on disk"),
    "RecordsRejected": AlertCondition(0.01, 600, WARNING, "Senders send what is not accepted"),
    "AgentErrorRateHigh": AlertCondition(0.1, 300, WARNING, "{subject} fails often"),
    "AgentRetryStorm": AlertCondition(
        0.5, 300, WARNING, "{subject} retries more than every second execution"
    ),
    "AgentFallbackSurge": AlertCondition(0.2, 300, WARNING, "Others take over from {subject}"),
    "AgentConfidenceLow": AlertCondition(0.6, 600, WARNING, "{subject} is unsure", below=True),
    "CostBurst": AlertCondition(3, 600, WARNING, "Models cost three times as much as usual"),
    "ModelsUnpriced": AlertCondition(
        0, 600, WARNING, "Costs lack calls of models without a price: add prices"
    ),
}


@dataclass(frozen=True, slots=True)
class ConditionReading:
    """Measured value of a condition, with labels."""

    name: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> Key:
        """Identity of the reading across rounds."""
        return self.name, self.labels

    @property
    def tenant(self) -> str:
        """Tenant of the agents concerned; empty for the collector itself."""
        return dict(self.labels).get("tenant", "")


def of_pressure(pressure: Pressure, pending_bytes: int) -> Iterator[ConditionReading]:
    """Yield readings of queue and disk."""
    yield ConditionReading("StoreLagging", pressure.oldest_seconds)
    if pressure.limit_bytes:
        held = pending_bytes + pressure.quarantined_bytes
        yield ConditionReading("QueueFilling", held / pressure.limit_bytes)
    if pressure.disk_kept_bytes:
        yield ConditionReading("DiskPressure", pressure.disk_free_bytes / pressure.disk_kept_bytes)


def of_counts(
    now: Counts, minutes_5: Counts, minutes_15: Counts, hour: Counts
) -> Iterator[ConditionReading]:
    """Yield readings of counters, as increases over earlier counts."""
    for name, counter, before in (
        ("RecordsQuarantined", "quarantined", minutes_15),
        ("RecordsDamaged", "damaged", hour),
    ):
        for what, kind in now:
            if what == counter:
                yield ConditionReading(name, _grown(now, before, what, kind), (("kind", kind),))
    received = sum(_grown(now, minutes_5, *key) for key in now if key[0] == "received")
    rejected = sum(_grown(now, minutes_5, *key) for key in now if key[0] == "rejected")
    yield ConditionReading("RecordsRejected", rejected / received if received else 0.0)


def _grown(now: Counts, before: Counts, what: str, kind: str) -> int:
    # A counter without an earlier value counts as unchanged: there is no baseline after a start.
    return now[what, kind] - before.get((what, kind), now[what, kind])


def of_agents(agents: Iterable[AgentHealth]) -> Iterator[ConditionReading]:
    """Yield readings of agent health."""
    for each in agents:
        labels = (("agent_name", each.agent), ("tenant", each.tenant))
        if each.confidence is not None:
            yield ConditionReading("AgentConfidenceLow", each.confidence, labels)
        if each.ended < LEAST_EXECUTIONS:
            continue
        yield ConditionReading("AgentErrorRateHigh", each.failed / each.ended, labels)
        yield ConditionReading("AgentRetryStorm", each.retries / each.ended, labels)
        yield ConditionReading("AgentFallbackSurge", each.fallbacks / each.ended, labels)


def of_spending(spending: Iterable[Spending]) -> Iterator[ConditionReading]:
    """Yield model spending in relation to the average of the day."""
    for each in spending:
        usual = each.usd_per_hour_of_day
        if each.usd_per_hour > LEAST_USD_PER_HOUR and usual > 0:
            yield ConditionReading(
                "CostBurst", each.usd_per_hour / usual, (("tenant", each.tenant),)
            )


def of_unpriced(tenants: Iterable[UnpricedCalls]) -> Iterator[ConditionReading]:
    """Yield how many calls of each tenant have no cost, because no price is known."""
    for each in tenants:
        yield ConditionReading("ModelsUnpriced", each.calls, (("tenant", each.tenant),))
