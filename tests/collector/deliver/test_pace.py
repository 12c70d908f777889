"""How long what waits is kept waiting: little comes, much comes, more comes than the store can take."""

import pytest

from tracereel_collector.deliver.pace import REST_TIMES, Pace


def pace_after(records, *, seconds, more_waits, linger=1.0):
    """The pace just after a batch that was sealed at 100."""
    pace = Pace(linger)
    pace.insert_ended(began=100.0, ended=100.0 + seconds)
    pace.batch_ended(records, sealed=100.0, more_waits=more_waits)
    return pace


def test_the_first_event_of_all_waits_for_a_moment_only():
    assert Pace(1.0).wait_seconds(100.0) == pytest.approx(0.1)


def test_where_little_comes_the_store_rests_between_two_inserts():
    pace = pace_after(10, seconds=0.2, more_waits=True)

    assert pace.wait_seconds(100.2) == pytest.approx(REST_TIMES * 0.2, rel=0.01)


def test_what_comes_after_a_pause_waits_for_a_moment_only():
    pace = pace_after(10, seconds=0.2, more_waits=False)

    assert pace.wait_seconds(160.0) == pytest.approx(0.1)


def test_where_much_comes_it_waits_for_as_long_as_it_may():
    pace = pace_after(5_000, seconds=0.3, more_waits=False)

    assert pace.wait_seconds(160.0) == pytest.approx(1.0)


def test_what_came_during_a_long_insert_has_waited_already():
    pace = pace_after(30_000, seconds=1.5, more_waits=True)

    assert pace.wait_seconds(101.5) == 0.0


def test_what_comes_just_after_a_large_insert_waits_for_company():
    pace = pace_after(30_000, seconds=1.5, more_waits=False)

    assert pace.wait_seconds(101.6) == pytest.approx(1.0)


def test_no_rest_is_longer_than_the_rule_allows():
    pace = pace_after(10, seconds=9.0, more_waits=True)

    assert pace.wait_seconds(109.0) == pytest.approx(1.0)
