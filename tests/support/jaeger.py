"""Helpers of the Jaeger API tests."""

import json
import time
import uuid
from urllib.parse import quote, urlencode

from tests.support.collector import http
from tests.support.waiting import wait_until

SECOND = 10**9
ENVELOPE = ["data", "total", "limit", "offset", "errors"]


class JaegerSite:
    """Running collector with Jaeger client requests and unique names."""

    def __init__(self, collector, headers=None):
        self.collector = collector
        self.headers = headers or {}
        self.mark = uuid.uuid4().hex[:8]
        self.now = time.time_ns()

    def name(self, text):
        return f"{text}-{self.mark}"

    def get(self, path, *pairs, **parameters):
        query = urlencode([*pairs, *parameters.items()])
        url = f"{self.collector.url}{path}{'?' if query else ''}{query}"
        return http("GET", url, headers=self.headers)

    def data(self, path, *pairs, **parameters):
        answer = self.get(path, *pairs, **parameters)
        assert answer.status == 200, answer.body
        return answer.json()["data"]

    def send(self, *resource_spans):
        """Send OTLP JSON; return when its last trace can be read."""
        body = json.dumps({"resourceSpans": resource_spans}).encode()
        headers = {"Content-Type": "application/json", **self.headers}
        answer = http("POST", f"{self.collector.url}/v1/traces", body, headers)
        assert answer.json() == {}, answer.body
        last = resource_spans[-1]["scopeSpans"][-1]["spans"][-1]
        wait_until(lambda: self._has(last["traceId"], last["spanId"]))
        # The name lists are filled right after the spans.
        named = resource_spans[-1]["resource"]["attributes"]
        service = next(
            (each["value"]["stringValue"] for each in named if each["key"] == "service.name"),
            "missing-service-name",
        )
        wait_until(
            lambda: (
                last["name"]
                in [each["name"] for each in self.data("/api/operations", service=service)]
            )
        )

    def _has(self, trace_id, span_id):
        answer = self.get(f"/api/traces/{trace_id}")
        assert answer.status in (200, 404), answer.body
        if answer.status == 404:
            return False
        (trace,) = answer.json()["data"]
        return any(span["spanID"] == span_id for span in trace["spans"])

    def events(self, *events):
        answer = self.collector.post_events(events, headers=self.headers)
        assert answer.json()["accepted"] == len(events), answer.body


def attribute(key, **value):
    return {"key": key, "value": value}


def resource(service, *spans, scope=None, more=()):
    attributes = [attribute("service.name", stringValue=service)] if service is not None else []
    return {
        "resource": {"attributes": [*attributes, *more]},
        "scopeSpans": [{"scope": scope or {}, "spans": list(spans)}],
    }


def span(trace_id, span_id, name="work", *, at, took=SECOND, **more):
    return {
        "traceId": trace_id,
        "spanId": span_id,
        "name": name,
        "startTimeUnixNano": str(at),
        "endTimeUnixNano": str(at + took),
        **more,
    }


def new_id(digits=32):
    return "f" + uuid.uuid4().hex[: digits - 1]


def in_path(text):
    return quote(text, safe="")
