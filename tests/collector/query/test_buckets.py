"""Percentiles from buckets, cursors and time windows of the query routes."""

import contextlib
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracereel_collector.errors import BadRequestError
from tracereel_collector.query import cursor as cursors
from tracereel_collector.query.agents import confidence
from tracereel_collector.query.durations import DurationCounts
from tracereel_collector.query.window import DAY, HOUR, iso, parse_window
from tracereel_collector.store.rollup_agents import STEPS_PER_OCTAVE

NOW = 1_769_162_400_000_000_000


VALUES = st.one_of(
    st.lists(st.integers(1, 10**12), min_size=1, max_size=200),
    # Close together, where buckets are coarse; and on both sides of the end of a bucket.
    st.integers(1, 10**9).flatmap(lambda n: st.lists(st.integers(n, n + 20), min_size=1)),
    st.integers(1, 35).flatmap(lambda n: st.lists(st.integers(2**n - 1, 2**n + 1), min_size=1)),
)
SHARES = st.sampled_from([0.01, 0.5, 0.9, 0.95, 0.99, 1])


def counted(values):
    """Return durations as the rollup counts them."""
    buckets = Counter(math.ceil(math.log2(each) * STEPS_PER_OCTAVE) for each in values)
    return DurationCounts(
        counts=buckets, shortest=min(values), longest=max(values), total=sum(values)
    )


@given(VALUES, SHARES)
def test_a_percentile_of_buckets_is_within_one_percent_of_the_true_one(values, share):
    true = sorted(values)[max(1, math.ceil(round(share * len(values), 6))) - 1]

    found = counted(values).percentile(share)

    assert found * 1_000 == pytest.approx(true, rel=0.01, abs=0.5)
    assert min(values) - 0.5 <= found * 1_000 <= max(values) + 0.5


@given(VALUES, SHARES)
def test_percentiles_of_few_values_are_values(values, share):
    found = DurationCounts(exact=values).percentile(share)

    assert round(found * 1_000) in values
    below = sum(each <= round(found * 1_000) for each in values)
    assert below >= round(share * len(values), 6)


@given(VALUES)
def test_percentiles_rise_with_their_share(values):
    shown = counted(values).latency()

    assert shown["p50_ms"] <= shown["p90_ms"] <= shown["p95_ms"] <= shown["p99_ms"]
    assert shown["mean_ms"] == pytest.approx(sum(values) / len(values) / 1_000, abs=0.001)


@given(VALUES)
def test_every_duration_lies_in_the_bucket_that_counts_it(values):
    spread = counted(values).spread()

    assert sum(each["executions"] for each in spread) == len(values)
    for each in spread:
        inside = [v for v in values if each["from_ms"] - 1e-6 < v / 1_000 <= each["to_ms"] + 1e-6]
        assert len(inside) >= each["executions"]


def test_empty_histogram_has_no_percentile_and_no_mean():
    assert DurationCounts().latency() == dict.fromkeys(
        ("p50_ms", "p90_ms", "p95_ms", "p99_ms", "mean_ms")
    )
    assert DurationCounts(counts={3: 0, 4: -1}).percentile(0.5) is None
    assert DurationCounts(exact=()).percentile(0.5) is None
    assert DurationCounts(counts={3: 0, 4: -1}).spread() == []
    assert confidence({}, 0) == {"mean": None, "tenths": [0] * 10}


@given(st.integers(-(2**63), 2**63 - 1), st.text(max_size=200))
def test_a_cursor_leads_back_to_its_place(value, name):
    place = cursors.CursorPosition(value, name)

    assert cursors.decode(cursors.encode(place, "q"), "q") == place
    with pytest.raises(BadRequestError):
        cursors.decode(cursors.encode(place, "q"), "another")


@given(st.text(max_size=40))
def test_invalid_cursor_is_refused(text):
    with pytest.raises(BadRequestError):
        cursors.decode(text, "q")


def test_windows_accept_absolute_and_relative_times():
    assert parse_window("2h", None, now=NOW).start == NOW - 2 * HOUR
    assert parse_window(None, None, now=NOW, default=DAY).start == NOW - DAY
    window = parse_window("2026-01-23T10:00:00+01:00", "2026-01-23T10:00:00Z", now=NOW)
    assert window.shown() == {
        "from": "2026-01-23T09:00:00.000000Z",
        "to": "2026-01-23T10:00:00.000000Z",
    }
    assert parse_window("2026-01-23", None, now=NOW).shown()["from"] == iso(NOW - 10 * HOUR)


@pytest.mark.parametrize("text", ["", "yesterday", "1y", "2026-13-01", "-5m", "9" * 30, "\0"])
def test_invalid_time_is_refused_with_a_reason(text):
    with pytest.raises(BadRequestError, match="expected"):
        parse_window(text, None, now=NOW)


@given(st.text(max_size=30))
def test_time_parser_raises_only_its_own_error(text):
    with contextlib.suppress(BadRequestError):
        window = parse_window(text, None, now=NOW)
        assert window.start is not None
        assert window.start >= 0
