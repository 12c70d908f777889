"""Token buckets: never more than the rate and the burst, never a wait for nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracereel_collector.auth import limits as limits_module
from tracereel_collector.auth.limits import (
    BURST_SECONDS,
    KeyLimits,
    RateLimitedError,
    Rates,
)

steps = st.lists(
    st.tuples(st.floats(0, 100), st.floats(0.1, 1000)), min_size=1, max_size=60
)  # pause, size


class TokenBucket:
    """What the statements in SQL are held to: fills at a rate, up to a burst, may be in debt.

    The size of a request is known only once it has been read, so the request that empties the bucket
    is served and the following ones wait. Over any time t at most `burst + rate * t` and the size
    of one request go through.
    """

    def __init__(self, *, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._level = burst
        self._at = now

    def wait(self, now: float) -> float:
        """Seconds until something may be taken again; 0 when it may now."""
        self._fill(now)
        return 0.0 if self._level > 0 else max(-self._level, 1e-9) / self._rate

    def take(self, amount: float, now: float) -> None:
        """Take so much, into debt where there is less."""
        self._fill(now)
        self._level -= amount

    def _fill(self, now: float) -> None:
        # A clock that steps back gives nothing and takes nothing.
        self._level = min(self._burst, self._level + max(0.0, now - self._at) * self._rate)
        self._at = now


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


def test_without_rates_nothing_is_remembered(tmp_path):
    limits = KeyLimits(Rates(), tmp_path / "limits.sqlite")
    limits.charge("a", records=10**12, size=10**12, now=0)

    limits.check("a", 0)
    assert list(tmp_path.iterdir()) == []


def told_to_wait(limits, now):
    try:
        limits.check("key", now)
    except RateLimitedError as refused:
        return refused.retry_after_seconds
    return 0


@given(steps, st.floats(0.5, 500))
def test_the_buckets_of_keys_behave_like_the_bucket(requests, rate):
    limits, now = KeyLimits(Rates(records=rate)), 0.0
    bucket = TokenBucket(rate=rate, burst=rate * BURST_SECONDS, now=0.0)
    for pause, size in requests:
        now += pause
        wait = bucket.wait(now)
        told = told_to_wait(limits, now)
        if wait > 1e-6 or told > 1:
            assert abs(told - max(1, min(300, wait))) <= 1
        limits.charge("key", records=math.ceil(size), now=now)
        bucket.take(math.ceil(size), now)
    limits.close()


def test_workers_share_the_buckets_and_a_restart_does_not_fill_them(tmp_path):
    one = KeyLimits(Rates(records=1), tmp_path / "limits.sqlite")
    two = KeyLimits(Rates(records=1), tmp_path / "limits.sqlite")
    one.charge("a", records=8, now=0)
    two.charge("a", records=8, now=0)
    one.close()
    two.close()

    with pytest.raises(RateLimitedError):
        KeyLimits(Rates(records=1), tmp_path / "limits.sqlite").check("a", 1)


def test_the_table_of_buckets_is_bounded(monkeypatch):
    monkeypatch.setattr(limits_module, "MAX_BUCKETS", 50)
    monkeypatch.setattr(limits_module, "TRIM_EVERY", 10)
    limits = KeyLimits(Rates(bytes=1))
    for number in range(300):
        limits.charge(str(number), size=20, now=number)

    assert limits._file.run("SELECT count(*), 0 FROM buckets")[0][0] <= 60
    with pytest.raises(RateLimitedError):
        limits.check("299", 299)


def test_a_file_that_cannot_be_used_keeps_nobody_out(tmp_path):
    (tmp_path / "limits.sqlite").write_bytes(b"nonsense" * 1000)
    limits = KeyLimits(Rates(records=1), tmp_path / "limits.sqlite")
    limits.charge("a", records=1000, now=0)

    limits.check("a", 0)
