"""The ledger of seen numbers agrees with a plain set, in any order of arrival."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tracereel_collector.model import EmitterRun
from tracereel_collector.queue.ledger import MAX_INTERVALS, Seen, new_positions

ranges = st.lists(
    st.tuples(st.integers(1, 60), st.integers(1, 12)).map(lambda pair: (pair[0], sum(pair) - 1)),
    max_size=40,
)


@given(ranges)
def test_add_returns_exactly_the_numbers_that_were_new(added):
    seen, model = Seen([]), set()
    for first, last in added:
        new = [n for lo, hi in seen.add(first, last) for n in range(lo, hi + 1)]

        assert new == sorted(set(range(first, last + 1)) - model)

        model.update(range(first, last + 1))


@given(ranges)
def test_intervals_stay_sorted_disjoint_and_survive_being_written_down(added):
    seen = Seen([])
    for first, last in added:
        seen.add(first, last)

    pairs = seen.intervals
    assert all(a[1] + 1 < b[0] for a, b in pairwise(pairs))
    assert Seen.parse(seen.dump()).intervals == pairs


def test_too_many_gaps_forget_the_oldest_numbers_rather_than_call_new_ones_seen():
    seen = Seen([])
    for number in range(1, 4 * MAX_INTERVALS, 2):
        seen.add(number, number)

    assert len(seen.intervals) == MAX_INTERVALS
    assert seen.add(2, 2) == [(2, 2)]


def test_positions_of_new_records_skip_what_was_seen_and_keep_what_has_no_ledger():
    seen = {"e": Seen([(3, 4)])}
    runs = (EmitterRun("e", 1, 5), EmitterRun(None, 0, 2), EmitterRun("e", 5, 2))

    # Records: e1 e2 e3 e4 e5 - - e5 e6; e3, e4 and the second e5 were seen.
    assert new_positions(runs, seen) == [(0, 2), (4, 7), (8, 9)]
