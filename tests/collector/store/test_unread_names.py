"""Attributes of agent spans that no dialect reads are listed by name and instrumentation."""

import json

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.clients.fields import spans_of
from tests.collector.store.conftest import RECEIVED
from tests.collector.store.dialects.handwritten import request
from tracereel_collector.model import Kind
from tracereel_collector.query.unread_names import UnreadNames

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


def body_of(spans, scope):
    decoded = ExportTraceServiceRequest.FromString(request("unread", spans))
    decoded.resource_spans[0].scope_spans[0].scope.name = scope
    return decoded.SerializeToString()


def unread(store, tenant="default", **asked):
    now = RECEIVED + 60 * 10**9
    found = UnreadNames(store).document(tenant, now_unix_nano=now, **asked)
    return json.loads(found)["attributes"]


def test_names_are_counted_by_scope_and_their_numbers_are_one_name(store, queued, token):
    spans = [
        {**CHAT, "newclient.prompt.0.text": "secret", "newclient.prompt.1.text": "secret"},
        {**CHAT, "newclient.prompt.0.text": "secret", "http.route": "/v1"},
        {"newclient.seed": 1},  # no span of a model, tool or agent
        {"gen_ai.operation.name": "unheard_of", "newclient.mood": "x" * 9_000},
    ]
    store.insert(
        Kind.SPANS, [queued(body_of(spans, "new"), records=4, kind=Kind.SPANS)], token=token
    )

    found = unread(store)

    assert [(each["scope"], each["name"], each["spans"]) for each in found] == [
        ("new", "newclient.prompt.N.text", 2),
        ("new", "newclient.mood", 1),
    ]
    assert "secret" not in json.dumps(found)
    assert unread(store, "another") == []
    assert len(unread(store, limit=1)) == 1


def test_names_of_a_hostile_sender_are_data(store, queued, token):
    names = ["it's", "a'); DROP TABLE x --", "back\\slash", "$known_names", "new\nline", "x" * 999]
    spans = [{**CHAT, **dict.fromkeys(names, "1")}]
    store.insert(
        Kind.SPANS, [queued(body_of(spans, "new"), records=1, kind=Kind.SPANS)], token=token
    )

    found = {each["name"] for each in unread(store)}

    assert found == {*names[:-1], "x" * 120}


def test_a_known_client_has_no_unread_names(store, queued, token):
    sent = spans_of("genai-openai").SerializeToString()
    store.insert(Kind.SPANS, [queued(sent, records=1, kind=Kind.SPANS)], token=token)

    assert unread(store) == []
