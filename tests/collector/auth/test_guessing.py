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
    assert guess(Guard(), "198.51.100.7", 60) <= FREE_TRIES + 7


def test_the_wait_grows_to_its_bound_and_is_forgotten_after_quiet():
    guard, now, waits = Guard(), 0.0, []
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
    guard = Guard()
    guard.succeeded("peer", b"right")
    guess(guard, "peer", 5)

    assert guard.wait("peer", b"right", 5) == 0
    assert guard.wait("peer", b"another", 5) > 0
    assert guard.wait("elsewhere", b"another", 5) == 0


def test_a_right_key_does_not_excuse_wrong_ones():
    guard = Guard()
    for number in range(FREE_TRIES + 1):
        guard.failed("peer", b"%d" % number, 0)
        guard.succeeded("peer", b"right")

    assert guard.wait("peer", b"guess", 0) > 0


def test_guesses_from_everywhere_are_bounded_together():
    guard, looked_at = Guard(), 0
    for step in range(20_000):
        peer, now = f"10.{step >> 16}.{step >> 8 & 255}.{step & 255}", step / 10_000
        if guard.wait(peer, b"k", now) == 0:
            guard.failed(peer, b"k", now)
            looked_at += 1

    assert looked_at < 1300


def test_the_table_of_addresses_is_bounded():
    guard = Guard()
    for number in range(MAX_ADDRESSES + 2_000):
        guard.succeeded(f"host{number}", b"k")
        guard.failed(f"host{number}", b"wrong", number / 100)

    assert len(guard._good) == MAX_ADDRESSES
    # A thousand between two looks, and the row of everybody.
    assert guard._file.run("SELECT count(*) FROM tries")[0][0] <= MAX_ADDRESSES + 1_001


def test_all_workers_together_allow_what_one_would(tmp_path):
    guards = [Guard(tmp_path / "limits.sqlite") for _ in range(4)]
    looked_at = 0
    for step in range(20_000):
        guard, now, key = guards[step % 4], step / 1000, b"%d" % step
        if guard.wait("198.51.100.7", key, now) == 0:
            guard.failed("198.51.100.7", key, now)
            looked_at += 1

    assert looked_at <= FREE_TRIES + 5
    assert {guard.wait("198.51.100.7", b"new", 20.0) for guard in guards} != {0.0}
    for guard in guards:
        guard.close()


def test_times_from_before_the_machine_was_started_again_hold_nobody_up(tmp_path):
    before, after = (Guard(tmp_path / "limits.sqlite") for _ in range(2))
    for number in range(2_000):
        before.failed("peer", b"%d" % number, 1_000_000.0)

    assert after.wait("peer", b"new", 5.0) < 60
    after.failed("peer", b"new", 5.0)
    assert after.wait("peer", b"other", 5.0) < 60
    before.close()
    after.close()


def test_a_file_that_cannot_be_used_keeps_nobody_out(tmp_path):
    guard = Guard(tmp_path)

    guard.failed("peer", b"wrong", 0)

    assert guard.wait("peer", b"right", 0) == 0


def test_an_ipv6_user_is_one_address():
    assert group("2001:db8::1") == group("2001:db8::ffff:1") != group("2001:db8:0:1::1")
    assert group("::ffff:192.0.2.1") == "192.0.2.1"
    assert group("") == ""
