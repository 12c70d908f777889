"""Clocks and ids."""

import time
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracereel
from tracereel._core import recorder as _recorder
from tracereel._runtime.clock import HybridClock, rfc3339, sortable_id


@given(st.lists(st.integers(0, 4_000_000_000_000_000_000), min_size=1))
def test_moments_are_written_to_the_microsecond(moments: list[int]) -> None:
    """Each timestamp is formatted independently of earlier ones."""
    for moment in moments:
        parsed = datetime.fromisoformat(rfc3339(moment))
        whole = int(parsed.replace(microsecond=0).timestamp())
        assert whole * 1_000_000 + parsed.microsecond == moment // 1000


def test_ids_are_unique_and_alike_in_form() -> None:
    ids = [sortable_id("evt") for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert {len(one) for one in ids} == {len("evt_") + 32}
    assert [one[:16] for one in ids] == sorted(one[:16] for one in ids)


def test_a_copied_clock_continues_from_its_origin() -> None:
    clock = HybridClock()
    clock._last = 2**62
    assert clock.copy().tick() == f"{2**62 + 1:016x}"


@pytest.mark.parametrize(("ahead", "followed"), [(840, True), (960, False)])
def test_a_clock_is_followed_up_to_a_bound(ahead: int, followed: bool) -> None:
    clock = HybridClock()
    told = f"{time.time_ns() + ahead * 10**9:016x}"
    clock.observe(told)
    assert (clock.tick() > told) is followed


def test_the_bound_is_a_setting_and_survives_a_fork() -> None:
    clock = HybridClock(max_drift=10.0)
    for each in (clock, clock.copy()):
        told = f"{time.time_ns() + 20 * 10**9:016x}"
        each.observe(told)
        assert each.tick() < told
    tracereel.configure(max_clock_drift=5.0)
    recorder = _recorder.active()
    assert recorder is not None
    recorder.clock.observe(told)
    assert recorder.clock.tick() < told
