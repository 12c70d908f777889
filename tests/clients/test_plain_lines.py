"""A plain call that is recorded in one step leaves what it would have left in many."""

import logging
from random import Random

import msgspec
import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

import tracereel
from tests.providers.test_plain import ANTHROPIC, CHAT, GOOGLE, RESPONSES, changed, names, values
from tests.support.ingest_sink import IngestSink
from tracereel import _recorder
from tracereel.integrations import _dialects, _model_call, _plain_lines
from tracereel.integrations._bodies import decoded
from tracereel.integrations._tool_memory import ToolMemory
from tracereel.redaction import Redaction
from tracereel.testing import EventRecorder

QUESTION = [{"role": "user", "content": "What is the weather like in Lima?"}]
CALLS = {
    "anthropic": (_dialects.ANTHROPIC, {"model": "m", "max_tokens": 9, "messages": QUESTION}),
    "chat": (_dialects.CHAT, {"model": "m", "temperature": 0.5, "messages": QUESTION}),
    "responses": (_dialects.RESPONSES, {"model": "m", "input": QUESTION, "instructions": "Hi."}),
    "google": (_dialects.GOOGLE, {"contents": [{"role": "user", "parts": [{"text": "Lima?"}]}]}),
}
ANSWERS = {"anthropic": ANTHROPIC, "chat": CHAT, "responses": RESPONSES, "google": GOOGLE}
OF_ONE_CALL = {"event_id", "timestamp", "trace_id", "otel_trace_id", "span_id", "execution_id"}
OF_ONE_CALL |= {"hlc", "emitter_seq", "trace_seq", "request_id", "duration_ms", "parent_span_id"}
OF_ONE_CALL |= {
    "execution_time_seconds",
    "execution_time_ms",
    "span_start_unix_nano",
    "span_end_unix_nano",
    "trace_event_count",
    "event_index",
}


class Request:
    """A request of httpx that was sent, as far as the hooks know it."""

    def __init__(self, body):
        self._content = body


def call(kind, answer, *, asked=None, plainly=True):
    """One call from begin to end; whether it went the short way."""
    dialect, body = CALLS[kind]
    body = {**body, **(asked or {})}
    work = _model_call.begin(dialect, body, model="m", memory=ToolMemory())
    if dialect.wire is not None:
        work.sent(Request(msgspec.json.encode(body)))
    work.headers({"x-ratelimit-remaining-tokens": "77"})
    short = plainly and work.answered_plainly(answer)
    if not short:
        work.answered(decoded(answer))
    work.detach()
    return short


def left(events):
    """What two calls have left, without what makes each its own; the order of fields counts."""
    return [
        [(name, value) for name, value in event.items() if name not in OF_ONE_CALL]
        for event in events
    ]


def both_ways(kind, answer, asked=None, **options):
    """Compare the two ways; whether the short one was taken."""
    with EventRecorder(**options) as events:
        call(kind, answer, asked=asked, plainly=False)  # names are known from now on
        events.clear()
        call(kind, answer, asked=asked, plainly=False)
        whole = left(events)
        events.clear()
        short = call(kind, answer, asked=asked)
        assert left(events) == whole
        ids = {(event["trace_id"], event["span_id"], event["execution_id"]) for event in events}
        assert len(ids) == 1
        assert [event["event_index"] for event in events] == list(range(len(whole)))
        assert events.events[-1]["trace_event_count"] == len(whole)
    return short


@pytest.mark.parametrize("kind", CALLS)
def test_plain_calls_of_every_provider_go_the_short_way(kind):
    assert both_ways(kind, msgspec.json.encode(ANSWERS[kind]))


@pytest.mark.parametrize("kind", CALLS)
def test_it_is_the_same_inside_an_agent_with_session_and_user(kind):
    answer = msgspec.json.encode(ANSWERS[kind])
    told = []

    ways = []

    @tracereel.traced_agent("planner")
    def plan(**_ids):
        ways.append(call(kind, answer, plainly=len(ways) == 2))

    with EventRecorder() as events:
        for _ in range(3):
            events.clear()
            plan(session_id="s-1", user_id="ana@example.org")
            told.append(left(events))
            assert [event["event_index"] for event in events] == list(range(4))
    assert ways == [False, False, True]
    assert told[2] == told[1]
    assert dict(told[2][2])["agent_name"] == "planner"
    assert dict(told[2][3])["llm_prompt_tokens"] == dict(told[2][2])["llm_prompt_tokens"]


SECRETS = ["ana@example.org", "sk-ant-a1b2c3d4e5f6g7h8", "password: hunter22", "4111111111111111"]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("place", ["answer", "question", "id"])
def test_a_secret_is_hidden_wherever_it_stands(kind, secret, place):
    answer = msgspec.json.encode(ANSWERS[kind])
    asked = None
    if place == "answer":
        answer = answer.replace(b"It is sunny in Lima.", f"Take {secret} along.".encode())
    elif place == "id":
        asked_id = (ANSWERS[kind].get("id") or ANSWERS[kind]["responseId"]).encode()
        answer = answer.replace(b'"%b"' % asked_id, msgspec.json.encode(secret))
    else:
        said = [{"role": "user", "parts": [{"text": secret}], "content": secret}]
        asked = {CALLS[kind][0].asked_in: said}
    with EventRecorder() as events:
        for _ in range(3):
            call(kind, answer, asked=asked)
        assert len(events) == 6
        assert secret.encode() not in msgspec.json.encode(events.events)

    assert not both_ways(kind, answer, asked)


@pytest.mark.parametrize("key", ["password", "s_s_n", "cvv", "Set-Cookie"])
def test_a_value_under_the_name_of_a_secret_is_hidden(key):
    asked = {"messages": [{"role": "user", "content": "Hm.", key: "abc"}]}

    assert not both_ways("anthropic", msgspec.json.encode(ANTHROPIC), asked)


@pytest.mark.parametrize(
    "options",
    [
        {"capture_content": False},
        {"sample_rate": 0.5},
        {"redaction": Redaction(fields={"content": "hash"})},
    ],
    ids=["no content", "sampled", "own rules"],
)
def test_where_events_are_changed_or_held_the_long_way_is_taken(options):
    with EventRecorder(**options):
        for _ in range(3):
            assert not call("chat", msgspec.json.encode(CHAT))


texts = st.text(max_size=40) | st.sampled_from(['"', "\\", "\n", "é\u2028", *SECRETS, "x" * 3000])


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=st.sampled_from(sorted(CALLS)),
    text=texts,
    question=texts,
    changes=st.lists(st.tuples(names, values), max_size=2),
    seed=st.integers(0, 2**32),
)
def test_whatever_is_asked_and_answered_is_recorded_alike(kind, text, question, changes, seed):
    data = changed(ANSWERS[kind], changes, Random(seed))
    try:
        answer = msgspec.json.encode(data).replace(
            b'"It is sunny in Lima."', msgspec.json.encode(text)
        )
        msgspec.json.encode(question)
    except UnicodeEncodeError:
        return
    said = [{"role": "user", "parts": [{"text": question}], "content": question}]

    both_ways(kind, answer, {CALLS[kind][0].asked_in: said})


@pytest.fixture
def spans():
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter, provider


@pytest.mark.parametrize("kind", CALLS)
def test_spans_lines_and_series_are_the_same(kind, spans, caplog):
    exporter, provider = spans
    structlog.reset_defaults()  # others in this process may have set it up
    registry = CollectorRegistry()
    answer = msgspec.json.encode(ANSWERS[kind])
    seen = []
    with (
        EventRecorder(tracer_provider=provider, registry=registry),
        caplog.at_level(logging.INFO, logger="tracereel"),
    ):
        for plainly in (False, False, True):
            exporter.clear()
            caplog.clear()
            before = figures(registry)
            short = call(kind, answer, plainly=plainly)
            (span,) = exporter.get_finished_spans()
            lines = [msgspec.json.decode(record.getMessage()) for record in caplog.records]
            seen.append((shown(span), without_ids(lines), difference(before, figures(registry))))
    assert short
    assert len(seen[2][1]) == 1  # messages are not for the log
    assert seen[2] == seen[1]


def shown(span):
    ids = {"trace_id", "execution.id", "request.id", "tracereel.trace_id", "tracereel.execution_id"}
    named = {key: value for key, value in span.attributes.items() if not key.endswith("_id")}
    return (
        span.name,
        span.kind,
        {key: named[key] for key in named.keys() - ids},
        span.status.status_code,
    )


def without_ids(lines):
    return [{key: value for key, value in line.items() if key not in OF_ONE_CALL} for line in lines]


def figures(registry):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if not sample.name.endswith(("_created", "_sum"))
    }


def difference(before, after):
    return {
        key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key)
    }


def test_what_is_written_is_delivered_and_numbered(tmp_path, monkeypatch):
    monkeypatch.setattr(_recorder, "_active", "unset")
    answer = msgspec.json.encode(CHAT)
    with IngestSink() as sink:
        tracereel.configure(endpoint=sink.url, spool_dir=tmp_path, registry=CollectorRegistry())
        ways = [call("chat", answer) for _ in range(5)]
        assert tracereel.flush(20).spooled == 0
        tracereel.shutdown(5)
        events = list(sink.events)
    assert ways == [False, True, True, True, True]
    assert [event["emitter_seq"] for event in events] == list(range(1, 11))
    assert [event.get("trace_event_count") for event in events] == [None, 2] * 5


def test_an_error_of_ours_is_counted_and_not_raised(monkeypatch):
    monkeypatch.delenv("TRACEREEL_RAISE_INTERNAL_ERRORS", raising=False)
    answer = msgspec.json.encode(CHAT)
    with EventRecorder() as events:
        call("chat", answer)
        events.clear()
        monkeypatch.setattr(_plain_lines, "_encode", None)
        assert call("chat", answer)
        assert len(events) == 0
        assert _recorder.active().drops() == {"internal_error": 2}


@pytest.mark.parametrize(
    ("messages", "texts"),
    [
        ('[{"role":"user","content":"hi"},{"content":"ho","role":"assistant"}]', ["hi", "ho"]),
        ('[{"role": "user", "content": ""}]', [""]),
    ],
)
def test_of_the_plainest_question_only_the_texts_are_looked_at(messages, texts):
    asked = _dialects.CHAT.asked_plainly(f'{{"model":"m","messages":{messages}}}'.encode())

    assert asked is not None
    assert (bytes(asked[0]).decode(), asked[1], list(asked[2])) == (messages, texts, [])


@pytest.mark.parametrize(
    "message",
    [
        '{"role":"user","content":"ana@example.com","content":"hi"}',
        '{"role":"user","content":"hi","name":"ana@example.com"}',
        '{"role":"ana@example.com","content":"hi"}',
        '{"role":"user","content":[{"type":"text","text":"ana@example.com"}]}',
    ],
)
def test_whatever_else_a_question_says_is_looked_at_whole(message):
    asked = _dialects.CHAT.asked_plainly(f'{{"messages":[{message}]}}'.encode())

    assert asked is not None
    assert "ana@example.com" in "".join(asked[1])
    assert "content" in asked[2]


def test_a_question_sent_in_several_lines_is_left_to_others_since_an_event_is_one():
    body = b'{"messages":[\n{"role":"user","content":"hi"}]}'

    assert _dialects.CHAT.asked_plainly(body) is None
