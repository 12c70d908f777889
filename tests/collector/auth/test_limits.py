"""Token buckets: never more than the rate and the burst, never a wait for nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracereel_collector.auth.limits import (
    BURST_SECONDS,
    MAX_BUCKETS,
    KeyLimits,
    RateLimitedError,
    Rates,
    TokenBucket,
)

steps = st.lists(
    st.tuples(st.floats(0, 100), st.floats(0.1, 1000)), min_size=1, max_size=60
)  # pause, size


@given(steps, st.floats(0.5, 500), st.floats(1, 5000))
def test_over_any_time_no_more_than_rate_and_burst_and_one_request_goes_through(
    requests, rate, burst
):
    bucket, now, served = TokenBucket(rate=rate, burst=burst, now=0.0), 0.0, []
    for pause, size in requests:
        now += pause
        if bucket.wait(now) == 0:
            bucket.take(size, now)
            served.append((now, size))

    for first in range(len(served)):
        total = 0.0
        for at, size in served[first:]:
            total += size
            allowed = burst + rate * (at - served[first][0]) + size
            assert total <= allowed * (1 + 1e-9) + 1e-6


@given(steps, st.floats(0.5, 500), st.floats(1, 5000))
def test_who_waits_as_long_as_told_is_served(requests, rate, burst):
    bucket, now = TokenBucket(rate=rate, burst=burst, now=0.0), 0.0
    for pause, size in requests:
        now += pause
        wait = bucket.wait(now)
        now += wait + 1e-6 * (1 + now)
        assert bucket.wait(now) == 0
        bucket.take(size, now)


def test_a_clock_that_steps_back_gives_nothing_and_breaks_nothing():
    bucket = TokenBucket(rate=1, burst=10, now=100)
    bucket.take(11, 100)

    assert bucket.wait(50) == pytest.approx(1)
    assert bucket.wait(52) == 0


def test_keys_have_shares_of_their_own_and_are_told_how_long_to_wait():
    limits = KeyLimits(Rates(records=10))
    limits.check("a", 0)
    limits.charge("a", records=10 * int(BURST_SECONDS) + 45, size=10**9, now=0)

    with pytest.raises(RateLimitedError, match="more than 10 records a second") as refused:
        limits.check("a", 0)
    assert refused.value.retry_after_seconds == 5
    assert refused.value.status == 429
    limits.check("b", 0)
    limits.check("a", 4.6)


def test_without_rates_nothing_is_remembered():
    limits = KeyLimits(Rates())
    limits.charge("a", records=10**12, size=10**12, now=0)

    limits.check("a", 0)
    assert limits._buckets == {}


def test_the_table_of_buckets_is_bounded():
    limits = KeyLimits(Rates(bytes=1))
    for number in range(MAX_BUCKETS + 50):
        limits.charge(str(number), size=1, now=0)

    assert len(limits._buckets) == MAX_BUCKETS
