"""Jaeger's API v3 on a running collector, compared with Jaeger's own snapshots."""

from datetime import UTC, datetime

import pytest

from tests.support.jaeger import SECOND, JaegerSite, attribute, new_id, resource, span


@pytest.fixture(scope="module")
def site(collector):
    return JaegerSite(collector)


def rfc(unix_nano):
    whole = datetime.fromtimestamp(unix_nano // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{unix_nano % SECOND:09d}Z"


@pytest.fixture(scope="module")
def sent(site):
    trace, root, child = new_id(), new_id(16), new_id(16)
    at = site.now - 100 * SECOND
    site.send(
        resource(
            site.name("frontend"),
            span(trace, root, "HTTP GET /", at=at, took=SECOND, kind=2, status={"code": 2}),
            span(
                *(trace, child, "step"),
                at=at + 5,
                took=10,
                parentSpanId=root,
                attributes=[
                    attribute("whole", intValue="9007199254740993"),
                    attribute("half", doubleValue=0.5),
                    attribute("no", boolValue=False),
                    attribute("blob", bytesValue="AAE="),
                    attribute("text", stringValue="1"),
                    attribute("list", arrayValue={"values": [{"intValue": "1"}]}),
                ],
                events=[{"timeUnixNano": str(at + 6), "name": "e"}],
                links=[{"traceId": "1" * 32, "spanId": "2" * 16, "traceState": "a=b"}],
            ),
            scope={"name": "lib"},
        )
    )
    return {"trace": trace, "root": root, "child": child, "at": at}


def times(sent):
    return {"query.startTimeMin": rfc(sent["at"]), "query.startTimeMax": rfc(sent["at"] + SECOND)}


def test_a_trace_is_otlp_in_json_under_result(site, sent):
    answer = site.get(f"/api/v3/traces/{sent['trace']}")

    assert answer.json() == {
        "result": {
            "resourceSpans": [
                {
                    "resource": {
                        "attributes": [
                            {"key": "service.name", "value": {"stringValue": site.name("frontend")}}
                        ]
                    },
                    "scopeSpans": [
                        {
                            "scope": {"name": "lib"},
                            "spans": [
                                {
                                    "traceId": sent["trace"],
                                    "spanId": sent["root"],
                                    "name": "HTTP GET /",
                                    "kind": 2,
                                    "startTimeUnixNano": str(sent["at"]),
                                    "endTimeUnixNano": str(sent["at"] + SECOND),
                                    "status": {"code": 2},
                                },
                                {
                                    "traceId": sent["trace"],
                                    "spanId": sent["child"],
                                    "parentSpanId": sent["root"],
                                    "name": "step",
                                    "startTimeUnixNano": str(sent["at"] + 5),
                                    "endTimeUnixNano": str(sent["at"] + 15),
                                    "attributes": [
                                        attribute("blob", bytesValue="AAE="),
                                        attribute("half", doubleValue=0.5),
                                        attribute(
                                            "list", arrayValue={"values": [{"intValue": "1"}]}
                                        ),
                                        attribute("no", boolValue=False),
                                        attribute("text", stringValue="1"),
                                        attribute("whole", intValue="9007199254740993"),
                                    ],
                                    "events": [{"timeUnixNano": str(sent["at"] + 6), "name": "e"}],
                                    "links": [
                                        {
                                            "traceId": "1" * 32,
                                            "spanId": "2" * 16,
                                            "traceState": "a=b",
                                        }
                                    ],
                                    "status": {},
                                },
                            ],
                        }
                    ],
                }
            ]
        }
    }


def test_services_and_operations(site, sent):
    assert site.name("frontend") in site.get("/api/v3/services").json()["services"]
    operations = site.get("/api/v3/operations", service=site.name("frontend")).json()
    assert operations == {
        "operations": [
            {"name": "HTTP GET /", "spanKind": "server"},
            # A span without a kind.
            {"name": "step", "spanKind": "internal"},
        ]
    }
    for name in ("spanKind", "span_kind"):
        found = site.get("/api/v3/operations", service=site.name("frontend"), **{name: "server"})
        assert [each["name"] for each in found.json()["operations"]] == ["HTTP GET /"]
    assert site.get("/api/v3/operations", service="nobody").json() == {"operations": []}


def test_summaries_have_the_fields_of_the_uis_list(site, sent):
    found = site.get(
        "/api/v3/trace-summaries", **times(sent), **{"query.serviceName": site.name("frontend")}
    )

    assert found.json() == {
        "summaries": [
            {
                "traceId": sent["trace"],
                "rootServiceName": site.name("frontend"),
                "rootOperationName": "HTTP GET /",
                "minStartTimeUnixNano": str(sent["at"]),
                "maxEndTimeUnixNano": str(sent["at"] + SECOND),
                "spanCount": 2,
                "errorSpanCount": 1,
                "services": [{"name": site.name("frontend"), "spanCount": 2, "errorSpanCount": 1}],
            }
        ]
    }


def test_a_span_whose_parent_is_missing_is_an_orphan(site):
    trace = new_id()
    service = site.name("orphans")
    site.send(
        resource(service, span(trace, new_id(16), "lost", at=site.now, parentSpanId="7" * 16))
    )

    (found,) = site.get(
        "/api/v3/trace-summaries",
        **{
            "query.serviceName": service,
            "query.startTimeMin": rfc(site.now),
            "query.startTimeMax": rfc(site.now + 1),
        },
    ).json()["summaries"]
    assert (found["orphanSpanCount"], found["rootOperationName"]) == (1, "lost")
    assert "errorSpanCount" not in found


@pytest.mark.parametrize(
    "names",
    [
        ("query.serviceName", "query.operationName", "query.durationMin", "query.searchDepth"),
        ("query.service_name", "query.operation_name", "query.duration_min", "query.num_traces"),
    ],
    ids=["camel case", "snake case"],
)
def test_a_search_takes_both_spellings(site, sent, names):
    service, operation, least, depth = names
    given = {
        **times(sent),
        service: site.name("frontend"),
        operation: "step",
        least: "5ns",
        depth: "3",
        "query.attributes": '{"whole":"9007199254740993"}',
    }

    found = site.get("/api/v3/traces", **given)
    assert found.status == 200
    assert len(found.json()["result"]["resourceSpans"][0]["scopeSpans"][0]["spans"]) == 2
    given[least] = "11ns"
    assert site.get("/api/v3/traces", **given).status == 404
    snake = {
        "query.start_time_min": given["query.startTimeMin"],
        "query.start_time_max": given["query.startTimeMax"],
    }
    assert site.get("/api/v3/traces", **snake, **{service: site.name("frontend")}).status == 200


def test_no_match_is_404_with_the_gateways_error(site, sent):
    expected = {"error": {"httpCode": 404, "message": "No traces found"}}

    found = site.get("/api/v3/traces", **times(sent), **{"query.serviceName": "nobody"})
    assert (found.status, found.json()) == (404, expected)
    absent = site.get(f"/api/v3/traces/{new_id()}")
    assert (absent.status, absent.json()) == (404, expected)
    empty = site.get("/api/v3/trace-summaries", **times(sent), **{"query.serviceName": "nobody"})
    assert (empty.status, empty.json()) == (200, {"summaries": []})


def test_a_search_may_leave_the_service_out(site, sent):
    found = site.get(
        "/api/v3/traces", **times(sent), **{"query.attributes": '{"whole":"9007199254740993"}'}
    )
    assert found.status == 200


def test_the_end_of_a_search_is_exclusive(site, sent):
    given = {"query.serviceName": site.name("frontend"), "query.operationName": "HTTP GET /"}
    early = rfc(sent["at"] - SECOND)

    def status(end):
        times = {"query.startTimeMin": early, "query.startTimeMax": rfc(end)}
        return site.get("/api/v3/traces", **given, **times).status

    assert (status(sent["at"]), status(sent["at"] + 1)) == (404, 200)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"query.startTimeMin": ""},
            "query.startTimeMin and query.startTimeMax are required",
        ),
        (
            {
                "query.startTimeMin": "2030-01-01T00:00:00Z",
                "query.startTimeMax": "2020-01-01T00:00:00Z",
            },
            (
                "query.startTimeMin must be before query.startTimeMax:"
                " 2030-01-01T00:00:00Z is not before 2020-01-01T00:00:00Z"
            ),
        ),
        (
            {"query.durationMin": "1.5s", "query.durationMax": "100ms"},
            "query.durationMin: 1.5s is above query.durationMax: 100ms; expected at most that",
        ),
        (
            {"query.duration_min": "2s", "query.durationMax": "1s"},
            "query.duration_min: 2s is above query.durationMax: 1s",
        ),
        (
            {"query.durationMax": "-1s"},
            "malformed parameter query.durationMax: '-1s' is below 0; expected a duration",
        ),
        ({"query.startTimeMax": "now"}, "malformed parameter query.startTimeMax: cannot parse"),
        ({"query.durationMin": "1"}, "malformed parameter query.durationMin: invalid duration"),
        ({"query.searchDepth": "x"}, "malformed parameter query.searchDepth"),
        ({"query.attributes": "x"}, "malformed parameter query.attributes"),
        ({"query.rawTraces": "x"}, "malformed parameter query.rawTraces"),
        ({"query.filter": "{}"}, "query.filter is not supported"),
    ],
    ids=str,
)
def test_invalid_parameter_is_400_in_the_gateways_format(site, sent, changes, message):
    answer = site.get("/api/v3/traces", **{**times(sent), **changes})

    assert answer.status == 400
    assert answer.json()["error"]["httpCode"] == 400
    assert answer.json()["error"]["message"].startswith(message)


@pytest.mark.parametrize("most", ["1.5s", "0", ""])
def test_a_range_of_durations_may_be_one_duration_or_open(site, sent, most):
    given = {**times(sent), "query.durationMin": "1.5s", "query.durationMax": most}

    assert site.get("/api/v3/traces", **given).status in (200, 404)


def test_trace_time_range_is_respected(site, sent):
    path = f"/api/v3/traces/{sent['trace']}"
    assert site.get(path, startTime=rfc(sent["at"]), endTime=rfc(sent["at"] + 1)).status == 200
    assert site.get(path, end_time=rfc(sent["at"] - 1)).status == 404
    assert site.get(path, start_time="x").status == 400
    late, early = "2030-01-01T00:00:00Z", "2020-01-01T00:00:00Z"
    for asked in (path, "/api/v3/dependencies"):
        refused = site.get(asked, startTime=late, endTime=early)
        assert refused.status == 400
        assert refused.json()["error"]["message"] == (
            f"startTime: {late} is above endTime: {early}; expected at most that"
        )


def test_dependencies_count_in_text(site):
    trace, root = new_id(), new_id(16)
    at = site.now - 5000 * SECOND
    site.send(
        resource(site.name("a"), span(trace, root, at=at)),
        resource(site.name("b"), span(trace, new_id(16), at=at + 1, parentSpanId=root)),
    )

    found = site.get("/api/v3/dependencies", startTime=rfc(at), endTime=rfc(at + SECOND)).json()
    pair = {"parent": site.name("a"), "child": site.name("b"), "callCount": "1"}
    assert pair in found["dependencies"]
    assert site.get("/api/v3/dependencies").status == 400
