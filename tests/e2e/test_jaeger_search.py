"""Trace search with Jaeger's legacy API on a running collector."""

import pytest

import tracereel_collector.query.jaeger.reader as reader
from tests.support.jaeger import ENVELOPE, SECOND, JaegerSite, attribute, new_id, resource, span


@pytest.fixture(scope="module")
def site(collector):
    return JaegerSite(collector)


class Searched:
    """Send three traces of a service, 10 seconds apart, lasting 1, 2 and 3 seconds."""

    def __init__(self, site):
        self.site = site
        self.service = site.name("searched")
        self.start = site.now // 1_000 * 1_000 - 3600 * SECOND
        self.ids = [new_id() for _ in range(3)]
        sent = [
            resource(
                self.service,
                span(
                    *(each, new_id(16), f"op-{number}"),
                    at=self.start + 10 * number * SECOND,
                    took=(number + 1) * SECOND,
                    attributes=[
                        attribute("number", intValue=str(number)),
                        attribute("odd's", stringValue="a:b \\ \"'\n{x}"),
                    ],
                    events=[
                        {
                            "timeUnixNano": str(self.start),
                            "name": "e",
                            "attributes": [attribute("in.log", boolValue=number == 1)],
                        }
                    ],
                    status={"code": 2} if number == 2 else {},
                ),
                more=[attribute("zone", stringValue="eu" if number else "us")],
            )
            for number, each in enumerate(self.ids)
        ]
        site.send(*sent)

    def found(self, *pairs, **parameters):
        answer = self.site.data("/api/traces", *pairs, **{"service": self.service, **parameters})
        assert all(trace["spans"] for trace in answer)
        return [self.ids.index(trace["traceID"]) for trace in answer]


@pytest.fixture(scope="module")
def searched(site):
    return Searched(site)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, [2, 1, 0]),
        ({"limit": "2"}, [2, 1]),
        ({"limit": "0"}, [2, 1, 0]),
        ({"operation": "op-1"}, [1]),
        ({"operation": "op"}, []),
        ({"minDuration": "1500ms"}, [2, 1]),
        ({"maxDuration": "2s"}, [1, 0]),
        ({"minDuration": "1.5s", "maxDuration": "2500000us"}, [1]),
        ({"tag": "number:1"}, [1]),
        ({"tag": "zone:eu"}, [2, 1]),
        ({"tag": "in.log:true"}, [1]),
        ({"tag": "error:true"}, [2]),
        ({"tag": "otel.status_code:ERROR"}, [2]),
        ({"tag": "odd's:a:b \\ \"'\n{x}"}, [2, 1, 0]),
        ({"tag": "odd's:' OR 1=1"}, []),
        ({"tags": '{"number":"2","zone":"eu"}'}, [2]),
        ({"tags": '{"number":"0","zone":"eu"}'}, []),
        ({"service": "nobody"}, []),
    ],
    ids=str,
)
def test_a_search_gives_whole_traces_the_newest_first(searched, parameters, expected):
    assert searched.found(**parameters) == expected


def test_tags_may_be_repeated_and_all_must_hold(searched):
    assert searched.found(
        ("tag", "number:1"), ("tag", "zone:eu"), ("tags", '{"in.log":"true"}')
    ) == [1]
    assert searched.found(("tag", "number:1"), ("tag", "zone:us")) == []


def test_times_of_a_search_are_microseconds_and_default_to_two_days(searched, site):
    micro = searched.start // 1_000
    assert searched.found(start=micro + 1, end=micro + 10_000_000) == [1]
    assert searched.found(end=micro) == [0]
    old = new_id()
    site.send(
        resource(searched.service + "-old", span(old, new_id(16), at=site.now - 3 * 86400 * SECOND))
    )
    assert site.data("/api/traces", service=searched.service + "-old") == []
    (found,) = site.data("/api/traces", service=searched.service + "-old", start=1)
    assert found["traceID"] == old


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"service": ""}, "parameter 'service' is required"),
        (
            {"minDuration": "2s", "maxDuration": "1s"},
            "'maxDuration' should be greater than 'minDuration'",
        ),
        ({"minDuration": "2"}, "unable to parse param 'minDuration': invalid duration"),
        ({"start": "x"}, "unable to parse param 'start': invalid syntax"),
        ({"limit": "many"}, "unable to parse param 'limit'"),
        ({"tag": "alone"}, "malformed 'tag' parameter, expecting key:value, received: alone"),
        ({"tags": "{"}, "malformed 'tags' parameter, cannot unmarshal JSON"),
        ({"tags": '{"a":1}'}, "malformed 'tags' parameter, cannot unmarshal JSON"),
        ({"raw": "perhaps"}, "unable to parse param 'raw'"),
        ({"traceID": "no id!"}, "trace id 'no id!' is not valid"),
    ],
    ids=str,
)
def test_invalid_parameter_is_400_in_jaegers_format(site, parameters, message):
    answer = site.get("/api/traces", **{"service": "s", **parameters})

    assert answer.status == 400
    assert list(answer.json()) == ENVELOPE
    (error,) = answer.json()["errors"]
    assert error["code"] == 400
    assert error["msg"].startswith(message)


def test_traces_asked_for_by_id_come_with_an_error_for_each_that_is_missing(site, searched):
    absent = new_id()
    answer = site.get("/api/traces", ("traceID", searched.ids[0]), ("traceID", absent)).json()

    assert [trace["traceID"] for trace in answer["data"]] == [searched.ids[0]]
    assert answer["errors"] == [{"msg": "trace not found", "traceID": absent}]


def test_no_more_traces_than_the_most_are_given(site):
    answer = site.get("/api/traces", service=site.name("nobody"), limit=str(10**9))
    assert answer.status == 200
    assert reader.MAX_TRACES == 1_500
