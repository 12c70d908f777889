"""Delivery pacing under low load, high load and overload."""

import pytest

from tracereel_collector.deliver.pace import REST_TIMES, Pace


def pace_after(records, *, seconds, more_waits, linger=1.0):
    """Return the pace just after a batch that was sealed at 100."""
    pace = Pace(linger)
    pace.insert_ended(began=100.0, ended=100.0 + seconds)
    pace.batch_ended(records, sealed=100.0, more_waits=more_waits)
    return pace


def test_first_event_waits_briefly():
    assert Pace(1.0).wait_seconds(100.0) == pytest.approx(0.1)


def test_inserts_are_paced_under_low_load():
    pace = pace_after(10, seconds=0.02, more_waits=True)

    assert pace.wait_seconds(100.02) == pytest.approx(REST_TIMES * 0.02, rel=0.01)


def test_first_body_after_a_pause_waits_briefly():
    pace = pace_after(10, seconds=0.2, more_waits=False)

    assert pace.wait_seconds(160.0) == pytest.approx(0.1)


def test_batches_wait_for_the_maximum_under_high_load():
    pace = pace_after(5_000, seconds=0.3, more_waits=False)

    assert pace.wait_seconds(160.0) == pytest.approx(1.0)


def test_wait_during_a_long_insert_counts():
    pace = pace_after(30_000, seconds=1.5, more_waits=True)

    assert pace.wait_seconds(101.5) == 0.0


def test_body_after_a_large_insert_waits_for_a_batch():
    pace = pace_after(30_000, seconds=1.5, more_waits=False)

    assert pace.wait_seconds(101.6) == pytest.approx(1.0)


def test_pause_between_inserts_is_bounded():
    pace = pace_after(10, seconds=9.0, more_waits=True)

    assert pace.wait_seconds(109.0) == pytest.approx(1.0)


def test_rest_is_counted_from_the_end_of_the_last_insert():
    pace = pace_after(10, seconds=9.0, more_waits=False)

    assert pace.wait_seconds(109.6) == pytest.approx(0.4)
