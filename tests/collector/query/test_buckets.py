"""Percentiles from buckets, cursors and time windows of the query routes."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracereel_collector.errors import BadRequestError
from tracereel_collector.query import cursor as cursors
from tracereel_collector.query.agents import confidence, durations, percentile
from tracereel_collector.query.window import DAY, HOUR, iso, parse_window

NOW = 1_769_162_400_000_000_000


@given(
    st.lists(st.integers(1, 10**9), min_size=1, max_size=50), st.sampled_from([0.5, 0.9, 0.95, 1])
)
def test_a_percentile_is_within_five_percent_of_the_true_one(durations, share):
    counts: dict[int, int] = {}
    for each in durations:
        bucket = math.ceil(math.log2(each) * 8)
        counts[bucket] = counts.get(bucket, 0) + 1

    found = percentile(counts, share)

    true = sorted(durations)[max(0, math.ceil(share * len(durations)) - 1)]
    assert found == pytest.approx(true, rel=0.05)


def test_every_duration_lies_in_the_bucket_that_counts_it():
    spread = durations({44: 2, 40: 1, 41: 0, 42: -1})

    assert [each["executions"] for each in spread] == [1, 2]
    assert spread[0] == {"from_ms": pytest.approx(29.344, rel=1e-3), "to_ms": 32, "executions": 1}
    assert spread[1]["from_ms"] < 45 < spread[1]["to_ms"]


def test_empty_histogram_has_no_percentile_and_no_mean():
    assert percentile({}, 0.5) is None
    assert percentile({3: 0, 4: -1}, 0.5) is None
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
