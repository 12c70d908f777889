"""Guessing is slowed by address; who has the right key is not."""

from tracereel_collector.auth.guard import (
    FORGET_SECONDS,
    FREE_TRIES,
    MAX_ADDRESSES,
    MAX_PENALTY_SECONDS,
    Guard,
    group,
)


def guess(guard, peer, seconds, *, rate=1000):
    """How many wrong keys are looked at when one comes every `1/rate` seconds."""
    looked_at = 0
    for step in range(int(seconds * rate)):
        now, key = step / rate, b"%d" % step
        if guard.wait(peer, key, now) == 0:
            guard.failed(peer, key, now)
            looked_at += 1
    return looked_at


def test_ten_thousand_tries_are_a_dozen():
    assert guess(Guard(now=0), "198.51.100.7", 60) <= FREE_TRIES + 7


def test_the_wait_grows_to_its_bound_and_is_forgotten_after_quiet():
    guard, now, waits = Guard(now=0), 0.0, []
    for number in range(FREE_TRIES + 9):
        guard.failed("peer", b"%d" % number, now)
        waits.append(guard.wait("peer", b"new", now))
        now += waits[-1]

    assert waits[:FREE_TRIES] == [0] * FREE_TRIES
    assert waits[FREE_TRIES:] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert max(waits) == MAX_PENALTY_SECONDS
    guard.failed("peer", b"late", now + FORGET_SECONDS + 1)
    assert guard.wait("peer", b"new", now + FORGET_SECONDS + 1) == 0


def test_a_key_that_was_right_from_there_before_never_waits():
    guard = Guard(now=0)
    guard.succeeded("peer", b"right")
    guess(guard, "peer", 5)

    assert guard.wait("peer", b"right", 5) == 0
    assert guard.wait("peer", b"another", 5) > 0
    assert guard.wait("elsewhere", b"another", 5) == 0


def test_a_right_key_does_not_excuse_wrong_ones():
    guard = Guard(now=0)
    for number in range(FREE_TRIES + 1):
        guard.failed("peer", b"%d" % number, 0)
        guard.succeeded("peer", b"right")

    assert guard.wait("peer", b"guess", 0) > 0


def test_guesses_from_everywhere_are_bounded_together():
    guard, looked_at = Guard(now=0), 0
    for step in range(20_000):
        peer, now = f"10.{step >> 16}.{step >> 8 & 255}.{step & 255}", step / 10_000
        if guard.wait(peer, b"k", now) == 0:
            guard.failed(peer, b"k", now)
            looked_at += 1

    assert looked_at < 1300
    assert len(guard._addresses) <= MAX_ADDRESSES


def test_the_table_of_addresses_is_bounded():
    guard = Guard(now=0)
    for number in range(MAX_ADDRESSES + 100):
        guard.succeeded(f"host{number}", b"k")

    assert len(guard._addresses) == MAX_ADDRESSES


def test_an_ipv6_user_is_one_address():
    assert group("2001:db8::1") == group("2001:db8::ffff:1") != group("2001:db8:0:1::1")
    assert group("::ffff:192.0.2.1") == "192.0.2.1"
    assert group("") == ""
