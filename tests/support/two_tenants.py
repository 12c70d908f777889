"""Collector with two tenants and their recorded data."""

import json

import clickhouse_connect
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tests.support.collector import CollectorProcess, http
from tests.support.contract import example
from tests.support.keys import make_key
from tests.support.waiting import wait_until

SCOPES = "write,read,admin"


class Site:
    """Collector, the tenants' keys, and request helpers."""

    def __init__(self, folder, **options):
        self.keys = {
            tenant: make_key(folder, tenant=tenant, scope=SCOPES)["key"]
            for tenant in ("alpha", "bravo")
        }
        self.collector = CollectorProcess(folder, **options).start()

    @property
    def url(self):
        return self.collector.url

    def ask(self, method, path, body=None, *, tenant="alpha", **headers):
        key = {"x-api-key": self.keys[tenant]} if tenant else {}
        if isinstance(body, dict | list):
            body = json.dumps(body).encode()
        return http(method, self.url + path, body, {**key, **headers})

    def send(self, *events, tenant="alpha", wait=True):
        body = [{**example("agent.execution.completed"), **event} for event in events]
        answer = self.ask(
            "POST", f"/v1/events{'?wait=stored&timeout=60' if wait else ''}", body, tenant=tenant
        )
        assert answer.status == 200
        return answer.json()

    def send_spans(self, trace_id, *names, tenant="alpha", **attributes):
        request = ExportTraceServiceRequest()
        spans = request.resource_spans.add().scope_spans.add().spans
        for number, name in enumerate(names):
            span = spans.add(name=name, trace_id=trace_id, span_id=bytes([number + 1] * 8))
            span.start_time_unix_nano = span.end_time_unix_nano = 1_700_000_000_000_000_000
            for key, value in attributes.items():
                pair = KeyValue(key=key.replace("__", "."), value=AnyValue(string_value=value))
                span.attributes.append(pair)
        return self._otlp("/v1/traces", request, tenant)

    def send_log(self, trace_id, text, *, tenant="alpha"):
        request = ExportLogsServiceRequest()
        record = request.resource_logs.add().scope_logs.add().log_records.add(trace_id=trace_id)
        record.body.string_value = text
        record.time_unix_nano = 1_700_000_000_000_000_000
        return self._otlp("/v1/logs", request, tenant)

    def _otlp(self, path, request, tenant):
        headers = {"Content-Type": "application/x-protobuf"}
        answer = self.ask("POST", path, request.SerializeToString(), tenant=tenant, **headers)
        assert answer.status == 200
        return answer

    def sql(self, statement, *, tenant="alpha", **parameters):
        return self.ask(
            "POST", "/v1/sql", {"query": statement, "parameters": parameters}, tenant=tenant
        )

    def engine(self):
        """Return a client on the engine itself, without tenant isolation."""
        host, port = self.ask("GET", "/readyz").json()["store"]["address"].split(":")
        return clickhouse_connect.get_client(
            host=host,
            port=int(port),
            username="tracereel",
            password=(self.collector.data_dir / "store" / "engine.secret").read_text().strip(),
            database="tracereel",
        )

    def settle(self):
        """Wait until nothing is pending."""
        wait_until(lambda: self.collector.metric("tracereel_queue_pending_bytes") == 0)
