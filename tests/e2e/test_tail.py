"""Live tail: acknowledged events reach every matching stream, through any worker."""

import json
import socket
import threading
import uuid

import pytest

from tests.support.collector import CollectorProcess, http
from tests.support.contract import EXAMPLES
from tests.support.keys import make_key
from tests.support.sse import EventStream
from tests.support.waiting import wait_until
from tracereel_collector.auth.keystore import KeyStore

ACME, OTHER = {"x-api-key": "the-key-of-tenant-acme"}, {"x-api-key": "the-key-of-tenant-other"}
STREAMS = 6
"""Enough connections to reach both workers in 31 of 32 cases."""


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """Return a collector with two workers and two tenants."""
    running = CollectorProcess(
        tmp_path_factory.mktemp("tail"),
        arguments=("--workers", "2"),
        environ={
            "TRACEREEL_API_KEYS": ",".join(
                f"{tenant}:the-key-of-tenant-{tenant}" for tenant in ("acme", "other", "few")
            ),
            "TRACEREEL_TAIL_BEAT_SECONDS": "0.3",
            "TRACEREEL_TAIL_READERS_PER_TENANT": "10",
            "TRACEREEL_STOP_SECONDS": "100",
        },
    ).start()
    yield running
    if running.process.poll() is None:
        running.stop()
    assert not any("Traceback" in line for line in running.output), running.output


def tail(collector, query="", *, key=ACME, **headers):
    return EventStream(f"{collector.url}/v1/tail{query}", headers={**key, **headers})


def event(trace_id, number, **extra):
    return {
        "event_id": f"{trace_id}-{number}",
        "event_type": "custom.numbered",
        "timestamp": "2026-01-23T10:00:00Z",
        "trace_id": trace_id,
        **extra,
    }


def post(collector, events, *, key=ACME):
    answer = collector.post_events(events, headers=key, wait=False)
    assert answer.status == 200, answer.body
    return answer.json()["first_sequence_number"]


def opened(collector, key):
    """Open a stream, if the collector accepts it."""
    stream = tail(collector, key=key)
    if stream.response.status == 200:
        return stream
    stream.close()
    return None


def test_every_stream_shows_every_event_once_in_the_order_of_their_numbers(watched, trace_id):
    streams = [tail(watched, f"?trace={trace_id}").__enter__() for _ in range(STREAMS)]
    senders = [
        threading.Thread(
            target=lambda part=part: [
                post(watched, [event(trace_id, part * 100 + 10 * step + n) for n in range(10)])
                for step in range(5)
            ]
        )
        for part in range(4)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()

    for stream in streams:
        shown = stream.wait_for(200)
        stream.__exit__()
        numbers = [int(message.id) for message in shown]
        assert numbers == sorted(set(numbers))
        assert {message.data["details"]["event_id"] for message in stream.messages} == {
            f"{trace_id}-{part * 100 + n}" for part in range(4) for n in range(50)
        }
        assert [each.data["details"]["sequence_number"] for each in shown] == numbers


def test_an_event_is_shown_as_it_was_sent_in_the_shape_of_a_replay(watched, trace_id):
    examples = [{**each, "trace_id": trace_id} for each in EXAMPLES]
    with tail(watched, f"?trace={trace_id}") as stream:
        watched.post_events(examples, headers=ACME)
        shown = stream.wait_for(len(examples))
    replay = watched.replay(trace_id, headers=ACME).json()
    entries = {entry["details"]["event_id"]: entry for entry in replay["timeline"]}

    for sent, message in zip(examples, shown, strict=True):
        assert message.name == "event"
        assert sent.items() <= message.data["details"].items()
        entry = entries[sent["event_id"]]
        assert (message.data["time"], message.data["event"]) == (entry["time"], entry["event"])
        assert message.data["details"]["tenant"] == "acme"


def test_filters_choose_among_what_is_shown(watched, trace_id):
    query = f"?trace={trace_id}&agent=a&agent=b&q=ma%C3%B1ana"
    with tail(watched, query) as stream:
        post(
            watched,
            [
                event(trace_id, 1, agent_name="a", user_prompt="Mañana"),
                event(trace_id, 2, agent_name="c", user_prompt="mañana"),
                event(trace_id, 3, agent_name="a", user_prompt="hoy"),
                event(trace_id, 4, agent_name="b", output_summary="hasta mañana"),
            ],
        )
        shown = stream.wait_for(2)

    assert [each.data["details"]["event_id"][-1] for each in shown] == ["1", "4"]


def test_tail_range_filters(watched, trace_id):
    with tail(watched, f"?trace={trace_id}&min_duration_ms=100&max_cost_usd=0.5") as stream:
        post(
            watched,
            [
                event(trace_id, 1, duration_ms=99, llm_cost_usd=0.1),
                event(trace_id, 2, duration_ms=100, llm_cost_usd=0.5),
                event(trace_id, 3, duration_ms=500, llm_cost_usd=0.6),
                event(trace_id, 4, duration_ms=500),
                event(trace_id, 5, duration_ms=500, llm_cost_usd=0),
            ],
        )
        shown = stream.wait_for(2)

    assert [each.data["details"]["event_id"][-1] for each in shown] == ["2", "5"]


def test_a_tenant_is_shown_nothing_of_another(watched, trace_id):
    with tail(watched, key=OTHER) as stream:
        post(watched, [event(trace_id, 1)])
        post(watched, [event(trace_id, 2)], key=OTHER)
        stream.wait_for(1)

        assert [each.data["details"]["tenant"] for each in stream.messages] == ["other"]


def test_tail_resumes_after_last_event_id(watched, trace_id):
    query = f"?trace={trace_id}"
    with tail(watched, query) as stream:
        post(watched, [event(trace_id, n) for n in range(3)])
        stream.wait_for(3)
        seen = stream.messages[1].id
    post(watched, [event(trace_id, n) for n in range(3, 6)])

    with tail(watched, query, **{"Last-Event-ID": seen}) as again:
        post(watched, [event(trace_id, 6)])
        again.wait_for(5)
        names = [each.data["details"]["event_id"][-1] for each in again.messages]

    assert names == ["2", "3", "4", "5", "6"]


def test_silence_is_filled_with_comments_that_move_the_resume_position(watched, trace_id):
    with tail(watched, f"?trace={trace_id}") as stream:
        number = post(watched, [event("trc_unwanted", 1)])

        wait_until(lambda: int(stream.last_id) >= number)
        assert stream.comments
        assert stream.messages == []


def test_tail_reports_possible_gaps(watched, trace_id):
    with tail(watched, f"?trace={trace_id}", **{"Last-Event-ID": str(2**62)}) as stream:
        (gap,) = stream.wait_for(1)
        first = post(watched, [event(trace_id, 1)])
        stream.wait_for(2)

    assert gap.name == "gap"
    assert gap.data["before"] <= first
    assert stream.messages[1].data["details"]["event_id"] == f"{trace_id}-1"


def test_spans_of_other_instrumentations_are_summed_up(watched):
    trace = uuid.uuid4().hex
    request = {
        "resourceSpans": [
            {
                "resource": {
                    "attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]
                },
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": trace,
                                "spanId": f"{n:016x}",
                                "name": "chat gpt-4o",
                                "kind": 3,
                                "startTimeUnixNano": "1769162400000000000",
                                "endTimeUnixNano": "1769162401500000000",
                                "status": {"code": 2, "message": "too many"},
                                "attributes": [
                                    {
                                        "key": "gen_ai.request.model",
                                        "value": {"stringValue": "gpt-4o"},
                                    },
                                    {"key": "gen_ai.agent.name", "value": {"stringValue": "a"}},
                                ],
                            }
                            for n in (1, 2)
                        ]
                    }
                ],
            }
        ]
    }
    with tail(watched, f"?trace={trace}&type=otel.span&model=gpt-4o&status=failed") as stream:
        answer = http(
            "POST",
            f"{watched.url}/v1/traces",
            json.dumps(request).encode(),
            {**ACME, "content-type": "application/json"},
        )
        assert answer.status == 200
        first, second = stream.wait_for(2)

    assert (first.name, int(second.id)) == ("span", int(first.id) + 1)
    details = first.data["details"]
    assert details["service"] == "shop"
    assert details["span_name"] == "chat gpt-4o"
    assert details["duration_ms"] == 1500
    assert details["agent_name"] == "a"
    assert first.data["time"] == "2026-01-23T10:00:00.000000000Z"


def test_slow_tail_reader_is_ended_as_lagged_while_ingest_continues(watched, trace_id):
    stream = tail(watched, f"?trace={trace_id}")
    lagged = watched.metric("tracereel_tail_ended_total", reason="lagged")
    text = "x" * 100_000
    # The first event has reached the reader before the flood, so it is among the shown ones.
    post(watched, [event(trace_id, 0)])
    first = f"{trace_id}-0".encode()
    wait_until(lambda: first in stream.socket.recv(1 << 16, socket.MSG_PEEK))
    sent = 1

    def is_dropped():
        nonlocal sent
        post(watched, [event(trace_id, sent + n, user_prompt=text) for n in range(20)])
        sent += 20
        return watched.metric("tracereel_tail_ended_total", reason="lagged") > lagged

    wait_until(is_dropped)
    with stream:
        wait_until(lambda: stream.ended)

    assert stream.messages[-1].name == "lagged"
    assert 0 < len(stream.messages) - 1 < sent
    assert {each.name for each in stream.messages[:-1]} == {"event"}
    numbers = [int(each.id) for each in stream.messages[:-1]]
    with tail(watched, f"?trace={trace_id}", **{"Last-Event-ID": stream.last_id}) as again:
        again.wait_for(sent - len(numbers))
        assert [int(each.id) for each in again.messages] == list(
            range(numbers[-1] + 1, numbers[0] + sent)
        )


def test_a_tenant_has_so_many_streams_and_no_more(watched):
    key = {"x-api-key": "the-key-of-tenant-few"}
    refused = watched.metric("tracereel_tail_refused_total")
    streams = []

    def one_more():
        stream = tail(watched, key=key)
        streams.append(stream)
        return stream.response.status == 429

    wait_until(one_more)
    error = json.loads(streams[-1].response.read())["error"]
    for stream in streams:
        stream.close()

    assert error["code"] == "throttled"
    assert "the limit is 10" in error["message"]
    assert watched.metric("tracereel_tail_refused_total") == refused + 1
    # A closed stream frees its slot.
    wait_until(lambda: opened(watched, key)).close()


def test_a_revoked_key_ends_its_stream(watched, trace_id):
    made = make_key(watched.data_dir, tenant="acme", scope="read")

    # A new key is accepted by every worker within a second.
    with wait_until(lambda: opened(watched, {"x-api-key": made["key"]})) as stream:
        KeyStore.of(watched.data_dir).revoke(made["id"], by="test")
        wait_until(lambda: stream.ended)

    assert stream.messages[-1].name == "end"
    assert "revoked" in stream.messages[-1].data["reason"]


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("?after=-1", {}),
        ("?after=x", {}),
        ("", {"Last-Event-ID": "x"}),
        ("?q=" + "x" * 1001, {}),
        ("?min_tokens=many", {}),
        ("?type=agent.execution.ended", {}),
        ("?type=agent.execution.started&type=agents.", {}),
    ],
)
def test_invalid_tail_position_and_filters_are_refused(watched, query, headers):
    answer = http("GET", f"{watched.url}/v1/tail{query}", headers={**ACME, **headers})

    assert answer.status == 400
    assert answer.json()["error"]["code"] == "bad_request"


def test_without_a_key_nothing_is_shown(watched):
    assert http("GET", f"{watched.url}/v1/tail").status == 401


def test_shutdown_ends_streams_with_an_end_event(watched):
    """Must run last: it stops the collector, which may wait 100 seconds for open streams."""
    with tail(watched) as stream:
        assert watched.stop() == 0
        wait_until(lambda: stream.ended)

    assert stream.messages[-1].name == "end"
    assert stream.messages[-1].data["retry"] is True
