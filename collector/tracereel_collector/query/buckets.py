"""Percentiles from bucket counts; each duration bucket ends at 2^(n/8) milliseconds."""

from collections.abc import Mapping

from tracereel_collector.store.rollup_agents import STEPS_PER_OCTAVE

CONFIDENCE_STEPS = 10


def bucket_middle(number: int) -> float:
    """Return a duration in milliseconds within 5 % of all values of the bucket."""
    return float(2 ** ((number - 0.5) / STEPS_PER_OCTAVE))


def percentile(counts: Mapping[int, int], share: float) -> float | None:
    """Return the duration below which a share of the values lies; `None` without values."""
    known = {number: count for number, count in counts.items() if count > 0}
    rank = share * sum(known.values())
    seen = 0
    for number in sorted(known):
        seen += known[number]
        if seen >= rank:
            return round(bucket_middle(number), 3)
    return None


def latency(counts: Mapping[int, int], total_ms: int) -> dict[str, float | None]:
    """Return percentiles and the exact mean of durations."""
    number = sum(counts.values())
    return {
        "p50_ms": percentile(counts, 0.5),
        "p90_ms": percentile(counts, 0.9),
        "p95_ms": percentile(counts, 0.95),
        "p99_ms": percentile(counts, 0.99),
        "mean_ms": round(total_ms / number, 3) if number > 0 else None,
    }


def durations(counts: Mapping[int, int]) -> list[dict[str, float | int]]:
    """Return the count of each nonempty bucket, shortest first."""
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
    """Return the mean confidence and the number of executions per tenth."""
    number = sum(counts.values())
    return {
        "mean": round(total_ppm / 1e6 / number, 6) if number > 0 else None,
        "tenths": [max(0, counts.get(tenth, 0)) for tenth in range(CONFIDENCE_STEPS)],
    }
