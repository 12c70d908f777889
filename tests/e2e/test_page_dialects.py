"""One conversation of twelve turns, read in the browser: from SDK events and from every dialect."""

import json
import re
from itertools import groupby

import anthropic
import openai
import pytest
from google.protobuf.json_format import ParseDict
from langchain_openai import ChatOpenAI
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from playwright.sync_api import expect

import tracereel
from tests.collector.query.content.conftest import _server, standin
from tests.collector.query.content.recorded import HERE
from tests.collector.query.content.test_same_conversation import RECORDED
from tests.e2e.test_sent_is_returned import model_call
from tests.sdk.clients.standin import Reply
from tests.support import talk
from tests.support.browser import PATIENCE_MS
from tests.support.collector import http
from tests.support.waiting import wait_until
from tracereel._core import recorder as _recorder
from tracereel.integrations import anthropic as anthropic_integration
from tracereel.integrations import openai as openai_integration
from tracereel.integrations.langchain import TracereelHandler

__all__ = ["_server", "standin"]
expect.set_options(timeout=PATIENCE_MS)
PROTOBUF = {"Content-Type": "application/x-protobuf"}
UNFOLD = """() => {
  const closed = [...document.querySelectorAll(".conversation details:not([open])")];
  for (const each of closed) each.open = true;
  return closed.length;
}"""
THOUGHTS = (talk.THOUGHT, talk.LAST_THOUGHT)
MARKUP = re.compile(r"\n(?:\d+\. )?|^\d+\. |\||```\w*|\(https?:[^)]*\)")
"""Where rendered text has other characters, or none: lists, tables, code blocks, addresses."""


def letters(text):
    return re.sub(r"[\W_]+", "", text)


def send(collector, name):
    """Send a recording; return the trace and id of each of its spans by name."""
    document = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    spans = ParseDict(document["spans"], ExportTraceServiceRequest())
    for kind, request in (
        ("traces", spans),
        ("logs", ParseDict(document.get("logs", {}), ExportLogsServiceRequest())),
    ):
        body = request.SerializeToString()
        assert http("POST", f"{collector.url}/v1/{kind}", body, PROTOBUF).status == 200
    return {
        span.name: (span.trace_id.hex(), span.span_id.hex())
        for resource in spans.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }


def read(visit, collector, trace_id, step_id):
    """Open a model call with everything unfolded; return its roles and its text."""
    content = f"{collector.url}/v1/traces/{trace_id}/steps/{step_id}/content"
    wait_until(lambda: http("GET", content).status == 200, timeout=60, message="it is not stored")
    page = visit.open(f"#/run/{trace_id}?step={step_id}")
    expect(page.locator(".conversation .answer .message").first).to_be_visible()
    wait_until(lambda: page.evaluate(UNFOLD) == 0, timeout=30, message="sections stay folded")
    expect(page.locator(".conversation .answer")).to_contain_text("is full")
    roles = [each.lower() for each in page.locator(".conversation h4").all_text_contents()]
    return roles, page.locator(".conversation").text_content(), page


def is_conversation(roles, text, *, thoughts=()):
    """Assert that all of it is there: in order, under its role, and not as JSON."""
    assert [thought for thought in thoughts if thought not in text] == []
    turns = [(role, said) for role, *said in talk.expected() if role != "tool"]
    assert [role for role, _ in groupby(roles)] == [
        role for role, _ in groupby(turns, lambda t: t[0])
    ]
    shown, place = letters(text), 0
    texts = [value for _, said in turns for kind, value, *_ in said if kind == "text"]
    for sent in texts:
        for piece in filter(None, map(letters, MARKUP.split(sent))):
            place = shown.find(piece, place)
            assert place >= 0, sent
    for kind, value in talk.TURNS:
        if kind == "result":
            assert all(each in shown for each in re.findall(r"\w+", json.dumps(value[2])))
        elif kind == "calls":
            for _, name, arguments in value:
                wanted = [name, *re.findall(r"\w+", json.dumps(arguments))]
                assert all(each in shown for each in wanted)
    assert "\\n" not in text
    assert '\\"' not in text


@pytest.mark.parametrize(("recording", "span"), RECORDED)
def test_a_recorded_dialect_is_read_as_a_conversation(visit, collector, recording, span):
    trace_id, step_id = send(collector, recording)[span]

    roles, text, page = read(visit, collector, trace_id, step_id)

    thinking = RECORDED[recording, span].get("thinking", False)
    is_conversation(roles, text, thoughts=THOUGHTS if thinking else ())
    if RECORDED[recording, span].get("image", True):
        expect(page.locator(".conversation img")).to_have_count(1)


@pytest.fixture
def recording(collector, tmp_path):
    """Record with the reasoning of models, of which only the size is recorded by default."""
    before = _recorder._active
    tracereel.configure(
        endpoint=collector.url, spool_dir=tmp_path, store_thinking=True, event_logs="off"
    )
    yield
    tracereel.shutdown()
    _recorder._active = before


@pytest.mark.parametrize("source", ["openai", "anthropic", "langchain"])
def test_a_call_that_the_sdk_records_is_read_as_a_conversation(
    visit, collector, standin, recording, source
):
    with tracereel.traced_agent("around"):
        trace_id = tracereel.current_execution().trace_id
        {"openai": by_openai, "anthropic": by_anthropic, "langchain": by_langchain}[source](standin)
    assert tracereel.flush(60).dropped == 0

    roles, text, page = read(visit, collector, trace_id, model_call(collector, trace_id))

    # LangChain leaves out what OpenAI's API has not: the reasoning of the answer.
    is_conversation(roles, text, thoughts=THOUGHTS[: 1 if source == "langchain" else 2])
    expect(page.locator(".conversation img")).to_have_count(1)


def by_openai(standin):
    client = openai_integration.wrap(openai.OpenAI(api_key="k", base_url=f"{standin.url}/v1"))
    standin.will(Reply(answer=talk.answer_of_chat()))
    with client:
        client.chat.completions.create(model="m", messages=talk.chat(), tools=talk.chat_tools())


def by_anthropic(standin):
    standin.will(Reply(answer=talk.answer_of_anthropic()))
    with anthropic.Anthropic(api_key="k", base_url=standin.url) as client:
        anthropic_integration.wrap(client).messages.create(
            model="m", max_tokens=100, system=talk.SYSTEM, messages=talk.anthropic()
        )


def by_langchain(standin):
    model = ChatOpenAI(model="m", api_key="k", base_url=f"{standin.url}/v1")
    standin.will(Reply(answer=talk.answer_of_chat()))
    model.invoke(talk.langchain(), config={"callbacks": [TracereelHandler()]})


@pytest.mark.parametrize("recording", ["genai-openai", "otel-openai-events", "openllmetry-openai"])
def test_a_call_is_found_by_its_words_in_list_and_run(visit, collector, recording):
    spans = send(collector, recording)
    traces = {trace for trace, _ in spans.values()}
    query = f"{collector.url}/v1/traces?q=summarise+please&limit=500"

    def found():
        return {each["trace_id"] for each in http("GET", query).json()["traces"]} & traces

    trace_id = wait_until(found, timeout=60, message="it is not found").pop()
    page = visit.open(f"#/run/{trace_id}?q=summarise+please")
    expect(page.locator(".step-row.hit")).not_to_have_count(0)
    expect(page.locator(".conversation .answer .message").first).to_be_visible()
    marked = "[...(CSS.highlights.get('run-hit') ?? [])].map(range => String(range))"
    wait_until(lambda: "Summarise" in page.evaluate(marked), timeout=30)
