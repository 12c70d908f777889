"""Key guessing is throttled by address; valid keys are not affected."""

import pytest

from tracereel_collector.auth.guard import (
    FORGET_SECONDS,
    FREE_TRIES,
    MAX_ADDRESSES,
    MAX_PENALTY_SECONDS,
    GuessingGuard,
    group,
)
from tracereel_collector.auth.limits import KeyLimits, Rates


def guess(guard, peer, seconds, *, rate=1000):
    """Return how many wrong keys are checked if one arrives every `1/rate` seconds."""
    looked_at = 0
    for step in range(int(seconds * rate)):
        now, key = step / rate, b"%d" % step
        if guard.wait(peer, key, now) == 0:
            guard.failed(peer, key, now)
            looked_at += 1
    return looked_at


def test_guessing_is_throttled_to_about_a_dozen_attempts():
    assert guess(GuessingGuard(), "198.51.100.7", 60) <= FREE_TRIES + 7


def test_the_wait_grows_to_its_bound_and_is_forgotten_after_quiet():
    guard, now, waits = GuessingGuard(), 0.0, []
    for number in range(FREE_TRIES + 9):
        guard.failed("peer", b"%d" % number, now)
        waits.append(guard.wait("peer", b"new", now))
        now += waits[-1]

    assert waits[:FREE_TRIES] == [0] * FREE_TRIES
    assert waits[FREE_TRIES:] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert max(waits) == MAX_PENALTY_SECONDS
    guard.failed("peer", b"late", now + FORGET_SECONDS + 1)
    assert guard.wait("peer", b"new", now + FORGET_SECONDS + 1) == 0


def test_known_good_key_from_an_address_never_waits():
    guard = GuessingGuard()
    guard.succeeded("peer", b"right")
    guess(guard, "peer", 5)

    assert guard.wait("peer", b"right", 5) == 0
    assert guard.wait("peer", b"another", 5) > 0
    assert guard.wait("elsewhere", b"another", 5) == 0


def test_valid_key_does_not_reset_the_guess_counter():
    guard = GuessingGuard()
    for number in range(FREE_TRIES + 1):
        guard.failed("peer", b"%d" % number, 0)
        guard.succeeded("peer", b"right")

    assert guard.wait("peer", b"guess", 0) > 0


def test_guesses_from_all_addresses_share_a_limit():
    guard, looked_at = GuessingGuard(), 0
    for step in range(20_000):
        peer, now = f"10.{step >> 16}.{step >> 8 & 255}.{step & 255}", step / 10_000
        if guard.wait(peer, b"k", now) == 0:
            guard.failed(peer, b"k", now)
            looked_at += 1

    assert looked_at < 1300


def test_the_table_of_addresses_is_bounded():
    guard = GuessingGuard()
    for number in range(MAX_ADDRESSES + 2_000):
        guard.succeeded(f"host{number}", b"k")
        guard.failed(f"host{number}", b"wrong", number / 100)

    assert len(guard._good) == MAX_ADDRESSES
    # A thousand between two cleanups, plus the row for all addresses.
    assert guard._file.run("SELECT count(*) FROM tries")[0][0] <= MAX_ADDRESSES + 1_001


def test_guess_limit_is_shared_by_all_workers(tmp_path):
    guards = [GuessingGuard(tmp_path / "limits.sqlite") for _ in range(4)]
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


@pytest.mark.parametrize("uptime", [5.0, 1_000_000.5], ids=["shorter", "longer"])
def test_wrong_keys_of_before_a_reboot_delay_no_key(tmp_path, uptime):
    path = tmp_path / "limits.sqlite"
    limits = KeyLimits(Rates(records=1), path, boot_id=lambda: "second")
    before = GuessingGuard(path, boot_id=lambda: "first")
    for number in range(2_000):
        before.failed("peer", b"%d" % number, 1_000_000.0)
    assert before.wait("elsewhere", b"new", 1_000_000.5) > 0
    before.close()

    limits.check("key", uptime)  # shares the file and opens it first
    after = GuessingGuard(path, boot_id=lambda: "second")
    assert after.wait("peer", b"new", uptime) == 0
    assert after.wait("elsewhere", b"new", uptime) == 0
    for number in range(FREE_TRIES + 1):
        after.failed("peer", b"%d" % number, uptime)
    assert after.wait("peer", b"other", uptime) == 1
    assert after.wait("elsewhere", b"other", uptime) == 0
    after.close()
    limits.close()


def test_a_worker_that_read_the_clock_earlier_does_not_reset_the_count():
    guard = GuessingGuard()
    for number in range(FREE_TRIES + 3):
        guard.failed("peer", b"%d" % number, 100.0)
    guard.failed("peer", b"late", 99.9)

    assert guard.wait("peer", b"new", 99.9) == 8
    assert guard.wait("peer", b"new", 100.0) == 8


def test_unusable_limits_file_does_not_block_requests(tmp_path):
    guard = GuessingGuard(tmp_path)

    guard.failed("peer", b"wrong", 0)

    assert guard.wait("peer", b"right", 0) == 0


def test_ipv6_guesses_are_counted_by_network_prefix():
    assert group("2001:db8::1") == group("2001:db8::ffff:1") != group("2001:db8:0:1::1")
    assert group("::ffff:192.0.2.1") == "192.0.2.1"
    assert group("") == ""
