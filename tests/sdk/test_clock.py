"""Time and identity."""

from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st

from tracereel._clock import HybridClock, rfc3339, sortable_id


@given(st.lists(st.integers(0, 4_000_000_000_000_000_000), min_size=1))
def test_moments_are_written_to_the_microsecond(moments: list[int]) -> None:
    """Whatever was written before, each text says its own moment."""
    for moment in moments:
        parsed = datetime.fromisoformat(rfc3339(moment))
        whole = int(parsed.replace(microsecond=0).timestamp())
        assert whole * 1_000_000 + parsed.microsecond == moment // 1000


def test_ids_are_unique_and_alike_in_form() -> None:
    ids = [sortable_id("evt") for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert {len(one) for one in ids} == {len("evt_") + 32}
    assert [one[:16] for one in ids] == sorted(one[:16] for one in ids)


def test_a_copied_clock_goes_on_from_its_origin() -> None:
    clock = HybridClock()
    clock._last = 2**62
    assert clock.copy().tick() == f"{2**62 + 1:016x}"
