"""Owners of sessions are enforced where that is configured."""

import uuid


def test_events_in_anothers_session_are_refused_where_owners_are_enforced(new_collector):
    collector = new_collector(environ={"TRACEREEL_SESSION_OWNERS": "refuse"}).start()

    def send(*users):
        events = [
            {
                "event_id": f"evt-{uuid.uuid4().hex}",
                "event_type": "custom.said",
                "timestamp": "2026-01-23T10:00:00Z",
                "trace_id": "trc-owned",
                "session_id": "owned",
                "user_id": user,
            }
            for user in users
        ]
        return collector.post_events(events)

    assert send("ana").json()["accepted"] == 1
    mixed = send("ana", "bob", None, "bob")
    assert (mixed.status, mixed.json()["accepted"]) == (200, 2)
    assert [each["index"] for each in mixed.json()["rejected"]] == [1, 3]
    reasons = {each["reason"] for each in mixed.json()["rejected"]}
    assert reasons == {"session_id: 'owned' belongs to another user"}
    alone = send("bob", "eve")
    assert alone.status == 403
    assert [each["index"] for each in alone.json()["rejected"]] == [0, 1]
    timeline = collector.replay("trc-owned").json()["timeline"]
    assert [each["details"]["user_id"] for each in timeline] == ["ana", "ana", None]
    rejected = "tracereel_records_rejected_total"
    assert collector.metric(rejected, kind="events", reason="session_owner") == 4
