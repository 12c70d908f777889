"""Completeness of a run, derived from emitter sequence numbers."""

from hypothesis import given
from hypothesis import strategies as st

from tests.collector.query.rows import event
from tracereel_collector.query.run.ledger import MAX_GAPS, accounts_of, unnumbered, verdict_of


def numbered(numbers, *, told=None, emitter="emt"):
    rows = [event("custom.x", each, emitter_id=emitter, trace_seq=each) for each in numbers]
    if told is not None:
        rows.append(
            event(
                *("pipeline.completed", 10**6),
                emitter_id=emitter,
                trace_seq=told,
                trace_event_count=told,
            )
        )
    return rows


def verdict(rows):
    return verdict_of(accounts_of(rows), unnumbered=unnumbered(rows))


def test_run_is_complete_when_all_sequence_numbers_up_to_its_count_arrived():
    assert verdict(numbered([1, 2, 3], told=4)) == "complete"
    assert verdict(numbered([1, 2, 3])) == "open"
    assert verdict(numbered([1, 3], told=4)) == "incomplete"
    assert verdict(numbered([2, 3])) == "incomplete"
    assert verdict([event("custom.x", 1)]) == "unknown"
    assert verdict(numbered([1, 2], told=3) + numbered([1, 3], emitter="other")) == "incomplete"


def test_missing_tail_is_detected_by_the_event_count():
    rows = [
        *numbered([1, 2]),
        event("pipeline.completed", 9, emitter_id="emt", trace_seq=5, trace_event_count=7),
    ]
    (account,) = accounts_of(rows)

    assert (len(account.numbers), account.expected, account.missing) == (3, 7, 4)
    assert account.gaps == [(3, 4), (6, 7)]


@given(st.sets(st.integers(1, 400), min_size=1), st.none() | st.integers(1, 500))
def test_gaps_are_the_complement_of_the_seen_numbers(numbers, told):
    (account,) = accounts_of(numbered(sorted(numbers), told=told))
    seen = numbers | ({told} if told else set())
    gone = {number for first, last in account.gaps for number in range(first, last + 1)}

    assert account.missing == account.expected - len(seen)
    assert not gone & seen
    if len(account.gaps) < MAX_GAPS:
        assert gone | seen == set(range(1, account.expected + 1))
        assert len(gone) == account.missing


def test_run_with_events_after_its_end_is_open_until_a_new_end():
    """Retried by a loop without a trace around it: the first attempt has closed the run."""
    first = event("execution.failed", 2, emitter_id="emt", trace_seq=2, trace_event_count=2)
    retry = event("retry.attempted", 3, emitter_id="emt", trace_seq=3, trace_event_count=3)
    last = event("execution.completed", 5, emitter_id="emt", trace_seq=5, trace_event_count=5)

    assert verdict([*numbered([1]), first]) == "complete"
    assert verdict([*numbered([1]), first, retry]) == "complete"
    assert verdict([*numbered([1, 4]), first, retry]) == "open"
    assert verdict([*numbered([1, 4]), first, retry, last]) == "complete"
    assert verdict([*numbered([1, 4]), first, last]) == "incomplete"
