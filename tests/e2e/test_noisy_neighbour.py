"""Noisy neighbour: one tenant uses every resource it can, the other is served as before."""

import json
import math
import time
import uuid
from collections import defaultdict
from urllib.parse import quote

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.collector import free_port
from tests.support.noise import TRACES, Noise
from tests.support.sse import EventStream
from tests.support.two_tenants import Site
from tests.support.waiting import wait_until
from tracereel_collector.queue.pause import StoreWriters
from tracereel_collector.startup.data_dir import QUEUE_FILE

RATIO = 10
"""Maximum growth of the quiet tenant's p99, as documented in docs/security.md."""
LEAST_SECONDS = 0.5
"""Minimum baseline, because the machine may be busy with other tests."""
ROUNDS = 6
PENDING = 8_000_000
LARGE = 3_000_000
ENVIRON = {
    "TRACEREEL_MAX_PENDING_BYTES": str(PENDING),
    "TRACEREEL_MAX_INFLIGHT_BYTES": str(PENDING),
    "TRACEREEL_MAX_BODY_BYTES": str(PENDING // 2),
    "TRACEREEL_MAX_CONNECTIONS": "160",
    "TRACEREEL_TAIL_READERS": "20",
    "TRACEREEL_BODY_SECONDS": "300",
}
HOUR_LONG = "hour-long-run"
SLOW_SQL = "SELECT payload, payload FROM agent_events FORMAT TSV"
HEARTBEAT = {
    "emitter_id": "quiet",
    "state": "alive",
    "sent_at": "2026-01-23T10:00:00Z",
    "recorded": 1,
}
SHARES = {
    "sql": ("sql_statements", 1),
    "exports": ("exports", 1),
    "playbacks": ("playbacks", 32),
    "tails": ("live_streams", 10),
    "calls": ("grpc_calls", 70),
    "bodies": ("body_bytes", 8),
}
"""Minimum that the noisy tenant can hold of each kind, and the resource that refuses more."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(
        tmp_path_factory.mktemp("noisy"),
        grpc_port=free_port(),
        arguments=("--workers", "1"),
        environ=ENVIRON,
    )
    with made.engine() as engine:
        engine.command(
            "ALTER TABLE agent_events ADD CONSTRAINT harmless CHECK event_id NOT LIKE 'poison%'"
        )
    yield made
    made.collector.stop()


def event(event_id, **fields):
    return {
        "event_id": event_id,
        "event_type": "custom.noise",
        "timestamp": "2026-01-23T10:00:00Z",
        "trace_id": HOUR_LONG,
        **fields,
    }


def poison():
    return [event(f"poison-{uuid.uuid4()}", payload={"text": "x" * 500_000})]


class Quiet:
    """Quiet tenant that sends a request of every kind, each of which must succeed."""

    def __init__(self, site, tenant):
        self.site = site
        self.tenant = tenant
        self.seconds = defaultdict(list)

    def ask(self, method, path, body=None, **headers):
        answer = self.site.ask(method, path, body, tenant=self.tenant, **headers)
        assert answer.status == 200, (path, answer.status, answer.body)
        return answer

    def round(self):
        for name in dir(self):
            if name.startswith("do_"):
                began = time.monotonic()
                getattr(self, name)()
                self.seconds[name].append(time.monotonic() - began)

    @property
    def p99(self):
        every = sorted(each for many in self.seconds.values() for each in many)
        return every[math.ceil(0.99 * len(every)) - 1]

    def do_send_and_wait(self):
        answer = self.ask("POST", "/v1/events?wait=stored", [event(str(uuid.uuid4()))])
        assert answer.json()["status"] == "stored"

    def do_send_a_large_body(self):
        self.ask("POST", "/v1/events", [event(str(uuid.uuid4()), payload={"x": "y" * 2_000_000})])

    def do_send_spans(self):
        headers = {"Content-Type": "application/x-protobuf"}
        self.ask("POST", "/v1/traces", spans(), **headers)

    def do_send_spans_by_grpc(self):
        key = (("x-api-key", self.site.keys[self.tenant]),)
        with grpc.insecure_channel(f"127.0.0.1:{self.site.collector.grpc_port}") as channel:
            channel.unary_unary(TRACES)(spans(), metadata=key, timeout=60)

    def do_heartbeat(self):
        self.ask("POST", "/v1/heartbeats", HEARTBEAT)

    def do_score(self):
        score = {"trace_id": HOUR_LONG, "name": "quality", "value": 1}
        self.ask("POST", "/v1/scores?wait=stored", score)

    def do_sql(self):
        assert self.site.sql("SELECT 1", tenant=self.tenant).status == 200

    def do_clickhouse(self):
        assert self.ask("POST", "/clickhouse", b"SELECT 1").body == b"1\n"

    def do_export(self):
        assert HOUR_LONG.encode() in self.ask("GET", "/v1/export?agent=&format=ndjson").body

    def do_replay(self):
        self.ask("GET", f"/v1/replay/{HOUR_LONG}")

    def do_play(self):
        assert b"event: end" in self.ask("GET", f"/v1/replay/{HOUR_LONG}?stream=1&speed=0").body

    def do_search(self):
        self.ask("GET", "/v1/traces")

    def do_jaeger(self):
        self.ask("GET", "/api/services")

    def do_tail(self):
        key = {"x-api-key": self.site.keys[self.tenant]}
        with EventStream(f"{self.site.url}/v1/tail", headers=key) as stream:
            marked = str(uuid.uuid4())
            self.ask("POST", "/v1/events", [event(marked)])
            wait_until(lambda: any(marked in json.dumps(each.data) for each in stream.messages))


def spans():
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    scope.spans.add(trace_id=uuid.uuid4().bytes, span_id=b"12345678", name="quiet")
    return request.SerializeToString()


def hold_slots(made):
    made.streams("sql", f"/clickhouse?query={quote(SLOW_SQL)}", 4)
    made.streams("exports", "/v1/export", 4)
    made.streams("playbacks", f"/v1/replay/{HOUR_LONG}?stream=1&speed=1", 40)
    made.streams("tails", "/v1/tail", 20)
    made.calls("calls", 95)
    made.bodies("bodies", 30, size=1_500_000)


def hold_requests(made):
    """Use up the rest of the request share with barely started bodies and searches."""
    made.bodies("silent bodies", 120, size=1)
    made.repeat("GET", "/v1/traces", threads=4)
    made.repeat("POST", "/v1/events", poison(), threads=2)


def test_noisy_tenant_does_not_disturb_another(site):
    for tenant in ("alpha", "bravo"):
        site.send(event("first"), event("last", timestamp="2026-01-23T11:00:00Z"), tenant=tenant)
    for number in range(3):
        site.send(event(f"large-{number}", payload={"text": "x" * LARGE}), tenant="alpha")
    baseline = Quiet(site, "bravo")
    for _ in range(ROUNDS):
        baseline.round()
    site.settle()

    fill_queue(site)
    with Noise(site, "alpha") as made:
        hold_slots(made)
        wait_until(lambda: is_held(site, made), timeout=60, message="slots should be held")
        hold_requests(made)
        wait_until(lambda: throttled(site, "requests"), message="all its requests should be taken")
        disturbed = Quiet(site, "bravo")
        for _ in range(ROUNDS):
            disturbed.round()
        wait_until(lambda: is_held(site, made), message="the noise should have lasted")

    for resource in ("requests", "queue_bytes"):
        assert throttled(site, resource)
    assert not throttled(site, "", reason="full"), "of nothing there should have been too little"
    assert disturbed.p99 <= RATIO * max(baseline.p99, LEAST_SECONDS), (
        baseline.seconds,
        disturbed.seconds,
    )


def throttled(site, resource, reason="share"):
    labels = {"resource": resource} if resource else {}
    return site.collector.metric("tracereel_throttled_total", reason=reason, **labels)


def is_held(site, made):
    """Return whether the noisy tenant holds its full share of everything and was refused more."""
    return all(
        len(made.held[name].open) >= most and throttled(site, resource)
        for name, (resource, most) in SHARES.items()
    )


def fill_queue(site):
    """Let the noisy tenant fill its share of the queue, then of the quarantine."""
    writers = StoreWriters((site.collector.data_dir / QUEUE_FILE).parent)

    def answer(tenant):
        return site.ask("POST", "/v1/events", poison(), tenant=tenant)

    with writers.paused(timeout=60):
        wait_until(lambda: answer("alpha").status == 429, timeout=60)
        as_large = [event("x", payload={"text": "x" * 500_000})]
        assert site.ask("POST", "/v1/events", as_large, tenant="bravo").status == 200
        assert "bytes that wait for the store" in answer("alpha").json()["error"]["message"]
    site.settle()
    assert site.collector.metric("tracereel_queue_quarantined_bytes") > PENDING // 4
    last = wait_until(lambda: (found := answer("alpha")).status == 429 and found, timeout=60)
    assert "in quarantine" in last.json()["error"]["message"]
