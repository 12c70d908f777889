"""Reading all data of a run with one query."""

from tests.collector.store.runs_to_find import at, run, span, spans_request
from tracereel_collector.query.run import rows
from tracereel_collector.query.run.rows import RunReader


def one_by_one(trace_id):
    """Return a run without simultaneous events."""
    return [{**event, "timestamp": at(seconds)} for seconds, event in enumerate(run(trace_id))]


def ids(found):
    return [row.event_id for row in found.events]


def test_events_come_in_causal_order_and_each_once_however_they_were_stored(told, migrated, tenant):
    events = one_by_one("scattered")
    told(*reversed(events))
    told(events[1], events[3])
    told(*run("other"))

    found = RunReader(migrated).read(tenant, "scattered")

    assert ids(found) == [event["event_id"] for event in events]
    assert (found.spans, found.truncated) == ([], False)


def test_runs_below_and_spans_of_others_come_with_it(told, spans, migrated, tenant):
    told(*run("above", otel_trace_id="ab" * 16, span_id="cd" * 8))
    told(*run("below", begin=1, parent_trace_id="above"))
    spans(spans_request(span(1), span(2)))

    found = RunReader(migrated).read(tenant, "above")

    assert found.trace_ids == ("above", "below")
    assert len(found.events) == 8
    assert len(found.spans) == 2
    assert RunReader(migrated).read(tenant, "above", linked=False).trace_ids == ("above",)


def test_of_a_run_that_is_too_long_its_beginning_is_read(told, migrated, tenant, monkeypatch):
    monkeypatch.setattr(rows, "MAX_EVENTS", 3)
    events = one_by_one("long")
    told(*reversed(events))

    found = RunReader(migrated).read(tenant, "long")

    assert ids(found) == [event["event_id"] for event in events[:3]]
    assert found.truncated
