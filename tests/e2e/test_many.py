"""Very many small bodies and distinct names: all are stored, and metric series stay few."""

import asyncio
import json
import threading
import uuid

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.collector import http
from tests.support.waiting import wait_until

BODIES, CONNECTIONS = 10_000, 500


async def send(collector, run, results):
    """Ten thousand bodies over many connections, each sent after the previous response."""
    host, port = collector.url.removeprefix("http://").split(":")
    numbers = iter(range(BODIES))

    async def one_connection():
        reader, writer = await asyncio.open_connection(host, int(port))
        for number in numbers:
            event = {
                "event_id": f"{run}-{number}",
                "event_type": "custom.tiny",
                "timestamp": "2026-01-23T10:00:00Z",
                "trace_id": f"{run}-{number % 50}",
            }
            body = json.dumps(event).encode()
            head = (
                f"POST /v1/events HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            results.append(int(answer.split()[1]))
        writer.close()

    await asyncio.gather(*(one_connection() for _ in range(CONNECTIONS)))


@pytest.mark.timeout(300)
def test_ten_thousand_tiny_bodies_at_once_are_all_stored_and_others_are_served_meanwhile(
    collector, sql
):
    run, results, others = uuid.uuid4().hex, [], []
    sending = threading.Thread(target=lambda: asyncio.run(send(collector, run, results)))
    sending.start()
    while sending.is_alive():
        others.append(http("GET", f"{collector.url}/healthz").status)
    sending.join()

    assert results == [200] * BODIES
    assert others
    assert set(others) == {200}
    stored = f"SELECT count(), uniqExact(event_id) FROM agent_events WHERE event_id LIKE '{run}-%'"
    wait_until(
        lambda: sql.query(stored).result_rows == [(BODIES, BODIES)],
        timeout=60,
        message="all of them are stored, once",
    )


def test_names_without_end_are_stored_and_make_no_series(collector, sql):
    """Twenty thousand names of spans, services and keys add no series to /metrics."""
    # Last in the alphabet: service lists are cut, and other tests look up their names in them.
    run, many = f"zz{uuid.uuid4().hex}", 20_000

    def lines():
        text = http("GET", f"{collector.url}/metrics").body.decode()
        return {line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")}

    def post(names):
        request = ExportTraceServiceRequest()
        for number in names:
            resource = request.resource_spans.add()
            name = resource.resource.attributes.add(key="service.name")
            name.value.string_value = f"{run}-service-{number}"
            span = resource.scope_spans.add().spans.add(
                name=f"{run}-span-{number}",
                trace_id=uuid.uuid4().bytes,
                span_id=number.to_bytes(8, "big"),
            )
            span.attributes.add(key=f"{run}-key-{number}").value.int_value = number
        kind = {"Content-Type": "application/x-protobuf"}
        answer = http("POST", f"{collector.url}/v1/traces", request.SerializeToString(), kind)
        assert (answer.status, answer.body) == (200, b"")
        bad = [
            {"event_type": f"no.{run}.{number}", f"f{number}": 1} for number in list(names)[:200]
        ]
        assert collector.post_events(bad, wait=False).status == 400
        http("GET", f"{collector.url}/{run}/{names[0]}")

    post(range(1, 11))
    wait_until(lambda: collector.metric("tracereel_records_pending", kind="spans") == 0)
    lines()  # requests create series too
    before = lines()
    post(range(11, many + 1))

    assert lines() == before
    asked = (
        "SELECT uniqExact(SpanName), uniqExact(ServiceName) FROM otel_spans"
        f" WHERE SpanName LIKE '{run}%'"
    )
    wait_until(lambda: sql.query(asked).result_rows == [(many, many)], timeout=60)
