"""Two instrumentations at once, end to end: each call counts once soon after it came."""

import json

from tests.clients import fields
from tests.support.collector import http
from tests.support.waiting import wait_until

PROTOBUF = {"Content-Type": "application/x-protobuf"}


def test_calls_of_two_instrumentations_are_settled_by_the_running_collector(new_collector):
    collector = new_collector().start()
    request = fields.spans_of("both-openai")
    body = request.SerializeToString()
    assert http("POST", f"{collector.url}/v1/traces", body, PROTOBUF).status == 200

    def totals():
        found = http("GET", f"{collector.url}/v1/traces").json()["traces"]
        return [(run["model_calls"], run["tokens"], run["errors"]) for run in found]

    wait_until(lambda: totals() == [(4, 450, 1)], timeout=120)
    statement = json.dumps({"query": "SELECT count(), sum(TotalTokens) FROM model_calls"}).encode()
    assert http("POST", f"{collector.url}/v1/sql", statement).json()["rows"] == [[4, 450]]
    wait_until(
        lambda: collector.metric("tracereel_settled_traces_total", outcome="settled") == 1,
        timeout=60,
    )

    # Every span twice more: the same body again would be dropped at the door.
    request.MergeFrom(fields.spans_of("both-openai"))
    again = request.SerializeToString()
    assert http("POST", f"{collector.url}/v1/traces", again, PROTOBUF).status == 200
    wait_until(
        lambda: collector.metric("tracereel_settled_traces_total", outcome="settled") == 2,
        timeout=120,
    )
    assert totals() == [(4, 450, 1)]
