"""Lookup of a run's events that wait in the queue."""

import json

from tracereel_collector.model import Body, Kind, WaitingEvents


def body(*traces, tenant="default", kind=Kind.EVENTS):
    lines = [json.dumps({"event_id": str(n), "trace_id": each}) for n, each in enumerate(traces)]
    return Body(
        kind=kind,
        tenant=tenant,
        received_unix_nano=1,
        data="\n".join(lines).encode(),
        records=len(lines),
    )


def test_only_what_is_of_the_run_and_the_tenant_and_not_delivered_counts(open_queue):
    queue = open_queue()
    for each in (body("a", "b", "a"), body("ab", "xa"), body("a", tenant="other"), body("a")):
        queue.append(each).result(10)

    assert queue.events_waiting(tenant="default", trace_id="a") == WaitingEvents(
        events=3, is_whole=True
    )
    assert queue.events_waiting(tenant="other", trace_id="a").events == 1
    assert queue.events_waiting(tenant="default", trace_id="none").events == 0

    batch = queue.next_batch(Kind.EVENTS, max_records=5, max_bytes=10**6)
    assert queue.events_waiting(tenant="default", trace_id="a").events == 3, "sealed is not stored"
    queue.done(batch, stored=batch.records, quarantined=[])
    assert queue.events_waiting(tenant="default", trace_id="a").events == 1
