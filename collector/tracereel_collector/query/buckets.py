"""Percentiles out of counted buckets: each duration bucket ends at 2^(n/8) milliseconds."""

from collections.abc import Mapping

from tracereel_collector.store.rollup_agents import STEPS_PER_OCTAVE

CONFIDENCE_STEPS = 10


def bucket_middle(number: int) -> float:
    """A duration in milliseconds that is within 5 % of everything in the bucket."""
    return float(2 ** ((number - 0.5) / STEPS_PER_OCTAVE))


def percentile(counts: Mapping[int, int], share: float) -> float | None:
    """The duration that a share of all do not exceed; None where there are none."""
    known = {number: count for number, count in counts.items() if count > 0}
    rank = share * sum(known.values())
    seen = 0
    for number in sorted(known):
        seen += known[number]
        if seen >= rank:
            return round(bucket_middle(number), 3)
    return None


def latency(counts: Mapping[int, int], total_ms: int) -> dict[str, float | None]:
    """What is said of durations: percentiles, and the exact mean."""
    number = sum(counts.values())
    return {
        "p50_ms": percentile(counts, 0.5),
        "p90_ms": percentile(counts, 0.9),
        "p95_ms": percentile(counts, 0.95),
        "p99_ms": percentile(counts, 0.99),
        "mean_ms": round(total_ms / number, 3) if number > 0 else None,
    }


def durations(counts: Mapping[int, int]) -> list[dict[str, float | int]]:
    """How many fall into each bucket, the shortest first; empty buckets are left out."""
    return [
        {
            "from_ms": round(2 ** ((number - 1) / STEPS_PER_OCTAVE), 6),
            "to_ms": round(2 ** (number / STEPS_PER_OCTAVE), 6),
            "executions": counts[number],
        }
        for number in sorted(counts)
        if counts[number] > 0
    ]


def confidence(counts: Mapping[int, int], total_ppm: int) -> dict[str, object]:
    """How sure an agent was: the mean, and how many executions fall into each tenth."""
    number = sum(counts.values())
    return {
        "mean": round(total_ppm / 1e6 / number, 6) if number > 0 else None,
        "tenths": [max(0, counts.get(tenth, 0)) for tenth in range(CONFIDENCE_STEPS)],
    }
