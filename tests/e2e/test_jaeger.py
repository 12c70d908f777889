"""Jaeger's legacy API on a running collector, field by field."""

import base64
import gzip
import json

import pytest

from tests.support.collector import http
from tests.support.jaeger import (
    ENVELOPE,
    SECOND,
    JaegerSite,
    attribute,
    in_path,
    new_id,
    resource,
    span,
)


@pytest.fixture(scope="module")
def site(collector):
    return JaegerSite(collector)


@pytest.fixture(scope="module")
def shop(site):
    """Two services in one trace, with every span field set."""
    trace, front, back = new_id(), new_id(16), new_id(16)
    at = site.now - 60 * SECOND
    site.send(
        resource(
            site.name("shop"),
            span(
                *(trace, front, "GET /cart"),
                at=at,
                took=1_500_999,
                kind=2,
                traceState="vendor=1",
                attributes=[
                    attribute("text", stringValue="7"),
                    attribute("whole", intValue="7"),
                    attribute("large", intValue="9223372036854775222"),
                    attribute("half", doubleValue=0.5),
                    attribute("yes", boolValue=True),
                    attribute("blob", bytesValue="AAAwOQ=="),
                    attribute(
                        "list", arrayValue={"values": [{"intValue": "1"}, {"stringValue": "a"}]}
                    ),
                ],
                events=[
                    {
                        "timeUnixNano": str(at + 1_000_500),
                        "name": "retry",
                        "attributes": [attribute("attempt", intValue="2")],
                    }
                ],
                links=[{"traceId": "0" * 16 + "1" * 16, "spanId": "2" * 16}],
                status={"code": 2, "message": "broken"},
            ),
            scope={"name": "http", "version": "1.2"},
            more=[attribute("host.cpus", intValue="4")],
        ),
        resource(
            site.name("stock"),
            span(trace, back, "SELECT", at=at + 1_000, took=1_000, kind=3, parentSpanId=front),
        ),
    )
    return {"trace": trace, "front": front, "back": back, "at": at}


def test_a_trace_has_every_field_as_jaeger_gives_it(site, shop):
    answer = site.get(f"/api/traces/{shop['trace']}")
    document = answer.json()

    assert list(document) == ENVELOPE
    assert (document["total"], document["limit"], document["offset"]) == (0, 0, 0)
    assert document["errors"] is None
    (trace,) = document["data"]
    front, back = trace["spans"]
    assert trace == {
        "traceID": shop["trace"],
        "spans": [front, back],
        "processes": {
            "p1": {
                "serviceName": site.name("shop"),
                "tags": [{"key": "host.cpus", "type": "int64", "value": 4}],
            },
            "p2": {"serviceName": site.name("stock"), "tags": []},
        },
        "warnings": None,
    }
    assert front == {
        "traceID": shop["trace"],
        "spanID": shop["front"],
        "operationName": "GET /cart",
        "references": [
            # A trace id whose upper half is zero has 16 digits.
            {"refType": "FOLLOWS_FROM", "traceID": "1" * 16, "spanID": "2" * 16}
        ],
        "startTime": shop["at"] // 1_000,
        "duration": 1_500,
        "tags": [
            {"key": "otel.scope.name", "type": "string", "value": "http"},
            {"key": "otel.scope.version", "type": "string", "value": "1.2"},
            {"key": "blob", "type": "binary", "value": "AAAwOQ=="},
            {"key": "half", "type": "float64", "value": 0.5},
            {"key": "large", "type": "int64", "value": "9223372036854775222"},
            {"key": "list", "type": "string", "value": '[1,"a"]'},
            {"key": "text", "type": "string", "value": "7"},
            {"key": "whole", "type": "int64", "value": 7},
            {"key": "yes", "type": "bool", "value": True},
            {"key": "span.kind", "type": "string", "value": "server"},
            {"key": "otel.status_code", "type": "string", "value": "ERROR"},
            {"key": "error", "type": "bool", "value": True},
            {"key": "otel.status_description", "type": "string", "value": "broken"},
            {"key": "w3c.tracestate", "type": "string", "value": "vendor=1"},
        ],
        "logs": [
            {
                "timestamp": (shop["at"] + 1_000_500) // 1_000,
                "fields": [
                    {"key": "event", "type": "string", "value": "retry"},
                    {"key": "attempt", "type": "int64", "value": 2},
                ],
            }
        ],
        "processID": "p1",
        "warnings": None,
    }
    assert back["references"] == [
        {"refType": "CHILD_OF", "traceID": shop["trace"], "spanID": shop["front"]}
    ]
    assert back["tags"] == [{"key": "span.kind", "type": "string", "value": "client"}]
    assert (back["processID"], back["logs"]) == ("p2", [])


def test_services_and_operations_are_listed(site, shop):
    answer = site.get("/api/services").json()
    assert {site.name("shop"), site.name("stock")} <= set(answer["data"])
    assert answer["data"] == sorted(answer["data"])
    assert answer["total"] == len(answer["data"])

    assert site.data(f"/api/services/{in_path(site.name('shop'))}/operations") == ["GET /cart"]
    assert site.data("/api/operations", service=site.name("stock")) == [
        {"name": "SELECT", "spanKind": "client"}
    ]
    assert site.data("/api/operations", service=site.name("stock"), spanKind="server") == []
    assert site.data("/api/operations", service=site.name("stock"), spanKind="nonsense") == []
    assert site.data("/api/services/nobody/operations") == []


def test_the_name_of_a_service_may_have_slashes_and_be_encoded_twice(site):
    """Grafana puts the raw name into the path."""
    name = site.name("team/a b%") + "/x"
    site.send(resource(name, span(new_id(), new_id(16), "odd", at=site.now)))

    for path in (name.replace(" ", "%20").replace("%-", "%25-"), in_path(name)):
        assert site.data(f"/api/services/{path}/operations") == ["odd"], path
    plain = site.name("slash/es")
    site.send(resource(plain, span(new_id(), new_id(16), "twice", at=site.now)))
    assert site.data(f"/api/services/{in_path(in_path(plain))}/operations") == ["twice"]


def test_a_span_without_a_service_belongs_to_the_one_jaeger_gives_it(site):
    trace = new_id()
    site.send(resource(None, span(trace, new_id(16), site.name("alone"), at=site.now)))

    assert "missing-service-name" in site.data("/api/services")
    (found,) = site.data(
        "/api/traces", service="missing-service-name", operation=site.name("alone")
    )
    assert found["processes"]["p1"]["serviceName"] == "missing-service-name"


@pytest.mark.parametrize(
    ("form", "status"),
    [
        (lambda each: each.upper(), 200),
        (lambda each: base64.b64encode(bytes.fromhex(each)).decode(), 200),
        (lambda each: base64.urlsafe_b64encode(bytes.fromhex(each)).decode().rstrip("="), 200),
        (lambda each: "0" + each[1:], 404),
        (lambda _: "f" * 33 + "!", 400),
        (lambda _: "not an id!", 400),
    ],
    ids=["upper case", "base64", "base64 for urls", "unknown", "too long", "no id"],
)
def test_trace_ids_come_in_several_forms(site, shop, form, status):
    answer = site.get(f"/api/traces/{in_path(form(shop['trace']))}")

    assert answer.status == status
    if status == 200:
        assert answer.json()["data"][0]["traceID"] == shop["trace"]
    else:
        assert list(answer.json()) == ENVELOPE
        assert answer.json()["data"] is None
        assert answer.json()["errors"][0]["code"] == status


def test_a_short_id_is_padded_and_shown_with_sixteen_digits(site):
    short = new_id(16)
    full = "0" * 16 + short
    site.send(resource(site.name("old"), span(full, new_id(16), at=site.now)))

    (trace,) = site.data(f"/api/traces/{short}")
    assert trace["traceID"] == trace["spans"][0]["traceID"] == short
    assert site.data(f"/api/traces/{full}") == [trace]


def test_an_absent_trace_is_404_in_the_envelope(site):
    answer = site.get(f"/api/traces/{new_id()}")

    assert answer.status == 404
    assert answer.json() == {
        "data": None,
        "total": 0,
        "limit": 0,
        "offset": 0,
        "errors": [{"code": 404, "msg": "trace not found"}],
    }


def test_the_times_of_a_trace_may_be_micro_or_milliseconds(site, shop):
    """Grafana sends milliseconds where Jaeger expects microseconds."""
    path = f"/api/traces/{shop['trace']}"
    for unit in (1_000, 1_000_000):
        early, late = shop["at"] // unit - 5_000, shop["at"] // unit + 5_000
        assert site.get(path, start=early, end=late).status == 200
        assert site.get(path, start=late + 10_000_000).status == 404
        assert site.get(path, end=early).status == 404
    assert (
        site.get(path, start="soon")
        .json()["errors"][0]["msg"]
        .startswith("unable to parse param 'start'")
    )


def test_missing_parent_span_is_a_warning(site):
    trace = new_id()
    site.send(resource(site.name("p"), span(trace, new_id(16), at=site.now, parentSpanId="9" * 16)))

    (found,) = site.data(f"/api/traces/{trace}")
    assert found["spans"][0]["warnings"] == [
        f"parent span ID={'9' * 16} is not in the trace; skipping clock skew adjustment"
    ]
    (raw,) = site.data(f"/api/traces/{trace}", raw="true")
    assert raw["spans"][0]["warnings"] is None


def test_a_service_that_calls_another_is_a_dependency(site, shop):
    pair = {"parent": site.name("shop"), "child": site.name("stock"), "callCount": 1}
    end = site.now // 1_000_000

    assert site.data(
        "/api/dependencies", endTs=end, lookback=3_600_000, service=site.name("stock")
    ) == [pair]
    assert pair in site.data("/api/dependencies", endTs=end)
    assert (
        site.data("/api/dependencies", endTs=end, lookback=1_000, service=site.name("stock")) == []
    )
    assert site.get("/api/dependencies", endTs="x").status == 400


def test_an_otlp_document_is_shown_without_being_stored(site):
    """Compared with Jaeger's recorded response to the same document."""
    spans = {
        "traceId": "83a9efd15c1c98a977e0711cc93ee28b",
        "spanId": "e127af99e3b3e074",
        "parentSpanId": "909541b92cf05311",
        "name": "okey-dokey-0",
        "kind": 2,
        "startTimeUnixNano": "1706678909209712000",
        "endTimeUnixNano": "1706678909209835000",
        "attributes": [
            attribute("net.peer.ip", stringValue="1.2.3.4"),
            attribute("peer.service", stringValue="telemetrygen-client"),
        ],
        "status": {},
    }
    document = {
        "resourceSpans": [resource("telemetrygen", spans, spans, scope={"name": "telemetrygen"})]
    }
    expected = {
        "traceID": "83a9efd15c1c98a977e0711cc93ee28b",
        "spanID": "e127af99e3b3e074",
        "operationName": "okey-dokey-0",
        "references": [
            {
                "refType": "CHILD_OF",
                "traceID": "83a9efd15c1c98a977e0711cc93ee28b",
                "spanID": "909541b92cf05311",
            }
        ],
        "startTime": 1706678909209712,
        "duration": 123,
        "tags": [
            {"key": "otel.scope.name", "type": "string", "value": "telemetrygen"},
            {"key": "net.peer.ip", "type": "string", "value": "1.2.3.4"},
            {"key": "peer.service", "type": "string", "value": "telemetrygen-client"},
            {"key": "span.kind", "type": "string", "value": "server"},
        ],
        "logs": [],
        "processID": "p1",
        "warnings": None,
    }

    def transform(body, **headers):
        url = f"{site.collector.url}/api/transform"
        return http("POST", url, body, {"Content-Type": "application/json", **headers})

    body = json.dumps(document).encode()
    for answer in (transform(body), transform(gzip.compress(body), **{"Content-Encoding": "gzip"})):
        assert answer.json() == {
            "data": [
                {
                    "traceID": "83a9efd15c1c98a977e0711cc93ee28b",
                    "spans": [expected, expected],
                    "processes": {"p1": {"serviceName": "telemetrygen", "tags": []}},
                    "warnings": None,
                }
            ],
            "total": 0,
            "limit": 0,
            "offset": 0,
            "errors": None,
        }
    assert transform(b"[]").status == 400
    assert site.get("/api/traces/83a9efd15c1c98a977e0711cc93ee28b").status == 404


def test_pretty_print_indents_the_response(site):
    assert b'\n    "data": ' in site.get("/api/services", prettyPrint="true").body
    assert b"\n" not in site.get("/api/services", prettyPrint="false").body


def test_metrics_of_services_are_not_offered(site):
    for name in ("latencies", "calls", "errors"):
        answer = site.get(f"/api/metrics/{name}", service="s")
        assert (answer.status, answer.json()["errors"][0]["code"]) == (501, 501)


def test_unknown_route_is_404_in_jaegers_format(site):
    assert site.get("/api/nothing").json()["errors"][0]["code"] == 404
    assert site.get("/api/v3/nothing").json()["error"]["httpCode"] == 404
