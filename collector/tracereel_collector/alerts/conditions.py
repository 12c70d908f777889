"""What counts as wrong: the conditions of the Prometheus rules that the collector can see itself."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tracereel_collector.model import AgentHealth, Spending
from tracereel_collector.telemetry import Pressure

Counts = Mapping[tuple[str, str], int]
Key = tuple[str, tuple[tuple[str, str], ...]]

LEAST_EXECUTIONS: Final = 3
"""Of an agent in five minutes: fewer say nothing about it."""
LEAST_USD_PER_HOUR: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A limit that must not be crossed for longer than a while; named as in the Prometheus rules."""

    limit: float
    seconds: float
    severity: str
    summary: str
    below: bool = False

    def is_crossed(self, value: float) -> bool:
        """Whether a value is on the wrong side."""
        return value < self.limit if self.below else value > self.limit


WARNING, CRITICAL = "warning", "critical"
CONDITIONS: Final = {
    "StoreLagging": Condition(
        limit=60, seconds=300, severity=WARNING, summary="The store is behind"
    ),
    "QueueFilling": Condition(
        limit=0.7, seconds=300, severity=WARNING, summary="The queue fills up"
    ),
    "DiskPressure": Condition(
        limit=4, seconds=300, severity=CRITICAL, summary="The disk is nearly full", below=True
    ),
    "RecordsQuarantined": Condition(
        limit=0, seconds=0, severity=WARNING, summary="The store refuses {subject}"
    ),
    "RecordsDamaged": Condition(
        limit=0, seconds=0, severity=CRITICAL, summary="{subject} are damaged on disk"
    ),
    "RecordsRejected": Condition(
        limit=0.01, seconds=600, severity=WARNING, summary="Senders send what is not accepted"
    ),
    "AgentErrorRateHigh": Condition(
        limit=0.1, seconds=300, severity=WARNING, summary="{subject} fails often"
    ),
    "AgentRetryStorm": Condition(
        limit=0.5,
        seconds=300,
        severity=WARNING,
        summary="{subject} retries more than every second execution",
    ),
    "AgentFallbackSurge": Condition(
        limit=0.2, seconds=300, severity=WARNING, summary="Others take over from {subject}"
    ),
    "AgentConfidenceLow": Condition(
        limit=0.6, seconds=600, severity=WARNING, summary="{subject} is unsure", below=True
    ),
    "CostBurst": Condition(
        limit=3, seconds=600, severity=WARNING, summary="Models cost three times as much as usual"
    ),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """A value of a condition, and whose it is."""

    name: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> Key:
        """What is the same from one look to the next."""
        return self.name, self.labels


def of_pressure(pressure: Pressure, pending_bytes: int) -> Iterator[Reading]:
    """What queue and disk say."""
    yield Reading("StoreLagging", pressure.oldest_seconds)
    if pressure.limit_bytes:
        held = pending_bytes + pressure.quarantined_bytes
        yield Reading("QueueFilling", held / pressure.limit_bytes)
    if pressure.disk_kept_bytes:
        yield Reading("DiskPressure", pressure.disk_free_bytes / pressure.disk_kept_bytes)


def of_counts(
    now: Counts, minutes_5: Counts, minutes_15: Counts, hour: Counts
) -> Iterator[Reading]:
    """What the counters say, compared with what they were."""
    for name, counter, before in (
        ("RecordsQuarantined", "quarantined", minutes_15),
        ("RecordsDamaged", "damaged", hour),
    ):
        for what, kind in now:
            if what == counter:
                yield Reading(name, _grown(now, before, what, kind), (("kind", kind),))
    received = sum(_grown(now, minutes_5, *key) for key in now if key[0] == "received")
    rejected = sum(_grown(now, minutes_5, *key) for key in now if key[0] == "rejected")
    yield Reading("RecordsRejected", rejected / received if received else 0.0)


def _grown(now: Counts, before: Counts, what: str, kind: str) -> int:
    # What was not counted then is not new now: a collector that has just begun to look knows nothing.
    return now[what, kind] - before.get((what, kind), now[what, kind])


def of_agents(agents: Iterable[AgentHealth]) -> Iterator[Reading]:
    """What the store says of agents."""
    for each in agents:
        labels = (("agent_name", each.agent), ("tenant", each.tenant))
        if each.confidence is not None:
            yield Reading("AgentConfidenceLow", each.confidence, labels)
        if each.ended < LEAST_EXECUTIONS:
            continue
        yield Reading("AgentErrorRateHigh", each.failed / each.ended, labels)
        yield Reading("AgentRetryStorm", each.retries / each.ended, labels)
        yield Reading("AgentFallbackSurge", each.fallbacks / each.ended, labels)


def of_spending(spending: Iterable[Spending]) -> Iterator[Reading]:
    """What models cost, compared with the day."""
    for each in spending:
        usual = each.usd_per_hour_of_day
        if each.usd_per_hour > LEAST_USD_PER_HOUR and usual > 0:
            yield Reading("CostBurst", each.usd_per_hour / usual, (("tenant", each.tenant),))
