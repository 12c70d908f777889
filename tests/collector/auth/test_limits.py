"""Token buckets: rate and burst are never exceeded, and no wait is longer than needed."""

import math
import sqlite3

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
    """Reference token bucket for the SQL implementation; it may go into debt.

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
        """Return the seconds until tokens may be taken again; 0 if they may be taken now."""
        self._fill(now)
        return 0.0 if self._level > 0 else max(-self._level, 1e-9) / self._rate

    def take(self, amount: float, now: float) -> None:
        """Take tokens, going into debt if there are too few."""
        self._fill(now)
        self._level -= amount

    def _fill(self, now: float) -> None:
        # If the clock steps back, the bucket neither fills nor drains.
        self._level = min(self._burst, self._level + max(0.0, now - self._at) * self._rate)
        self._at = now


@given(steps, st.floats(0.5, 500), st.floats(1, 5000))
def test_throughput_never_exceeds_rate_burst_and_one_request(requests, rate, burst):
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
def test_request_succeeds_after_the_returned_wait(requests, rate, burst):
    bucket, now = TokenBucket(rate=rate, burst=burst, now=0.0), 0.0
    for pause, size in requests:
        now += pause
        wait = bucket.wait(now)
        now += wait + 1e-6 * (1 + now)
        assert bucket.wait(now) == 0
        bucket.take(size, now)


def test_token_bucket_ignores_backward_clock_steps():
    bucket = TokenBucket(rate=1, burst=10, now=100)
    bucket.take(11, 100)

    assert bucket.wait(50) == pytest.approx(1)
    assert bucket.wait(52) == 0


def test_limits_are_per_key_with_retry_after():
    limits = KeyLimits(Rates(records=10))
    limits.check("a", 0)
    limits.charge("a", records=10 * int(BURST_SECONDS) + 45, size=10**9, now=0)

    with pytest.raises(RateLimitedError, match="more than 10 records a second") as refused:
        limits.check("a", 0)
    assert refused.value.retry_after_seconds == 5
    assert refused.value.status == 429
    limits.check("b", 0)
    limits.check("a", 4.6)


def test_no_state_is_kept_without_rates(tmp_path):
    limits = KeyLimits(Rates(), tmp_path / "limits.sqlite")
    limits.charge("a", records=10**12, size=10**12, now=0)

    limits.check("a", 0)
    assert list(tmp_path.iterdir()) == []


def asked_to_wait(limits, now):
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
        told = asked_to_wait(limits, now)
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


@pytest.mark.parametrize("uptime", [5.0, 2_000_000.0], ids=["short", "long"])
def test_a_key_in_debt_has_a_fresh_bucket_after_a_reboot(tmp_path, uptime):
    path, rates = tmp_path / "limits.sqlite", Rates(records=1)
    before = KeyLimits(rates, path, boot_id=lambda: "first")
    before.charge("a", records=10_000_000, now=1_000_000.0)
    before.close()

    after = KeyLimits(rates, path, boot_id=lambda: "second")
    after.check("a", uptime)
    after.charge("a", records=9, now=uptime)
    after.check("a", uptime)
    after.charge("a", records=1, now=uptime)
    with pytest.raises(RateLimitedError):
        after.check("a", uptime)
    after.close()


def test_a_worker_that_starts_keeps_the_buckets_of_its_boot(tmp_path):
    path, rates = tmp_path / "limits.sqlite", Rates(records=1)
    workers = [KeyLimits(rates, path, boot_id=lambda: "only") for _ in range(3)]
    for worker in workers:
        worker.charge("a", records=4, now=5.0)

    for worker in workers:
        with pytest.raises(RateLimitedError):
            worker.check("a", 6.0)
        worker.close()


def test_buckets_of_an_unknown_boot_are_not_believed(tmp_path):
    path, rates = tmp_path / "limits.sqlite", Rates(records=1)
    before = KeyLimits(rates, path, boot_id=lambda: "")
    before.charge("a", records=1000, now=1_000_000.0)
    before.close()

    after = KeyLimits(rates, path, boot_id=lambda: "")
    after.check("a", 5.0)
    after.close()


def test_a_file_without_a_boot_is_of_another_boot(tmp_path):
    path = tmp_path / "limits.sqlite"
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE buckets (key, unit, level, at, PRIMARY KEY (key, unit))")
        file.execute("INSERT INTO buckets VALUES ('a', 'records', -1000, 1000000)")
    file.close()

    limits = KeyLimits(Rates(records=1), path)
    limits.check("a", 5.0)
    limits.close()


def test_a_worker_that_read_the_clock_earlier_does_not_fill_the_bucket():
    limits = KeyLimits(Rates(records=1))
    limits.charge("a", records=12, now=100.0)
    limits.charge("a", records=1, now=90.0)

    with pytest.raises(RateLimitedError):
        limits.check("a", 100.0)
    limits.close()


def test_the_table_of_buckets_is_bounded(monkeypatch):
    monkeypatch.setattr(limits_module, "MAX_BUCKETS", 50)
    monkeypatch.setattr(limits_module, "TRIM_EVERY", 10)
    limits = KeyLimits(Rates(bytes=1))
    for number in range(300):
        limits.charge(str(number), size=20, now=number)

    assert limits._file.run("SELECT count(*), 0 FROM buckets")[0][0] <= 60
    with pytest.raises(RateLimitedError):
        limits.check("299", 299)


def test_unusable_limits_file_does_not_block_requests(tmp_path):
    (tmp_path / "limits.sqlite").write_bytes(b"nonsense" * 1000)
    limits = KeyLimits(Rates(records=1), tmp_path / "limits.sqlite")
    limits.charge("a", records=1000, now=0)

    limits.check("a", 0)
