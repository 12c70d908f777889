"""Property: what was sent is what the API returns; with redaction, all but the secrets."""

import json
import uuid

import anthropic
import openai
import pytest
from google import genai
from google.genai import types
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from langchain_openai import ChatOpenAI

import tracereel
from tests.collector.store.dialects.handwritten import request
from tests.sdk.clients.conftest import _server, standin
from tests.sdk.clients.standin import Reply
from tests.support.collector import http
from tests.support.waiting import wait_until
from tracereel._core import recorder as _recorder
from tracereel.integrations import anthropic as anthropic_integration
from tracereel.integrations import google as google_integration
from tracereel.integrations import openai as openai_integration
from tracereel.integrations import sse
from tracereel.integrations.langchain import TracereelHandler

__all__ = ["_server", "standin"]

PROTOBUF = {"content-type": "application/x-protobuf"}
SECRET = "sk-proj-Zq8vN3xLw7RtYb2KdM5pHs9fGj4cTa6e"
EMAIL = "ana.perez@example.com"
WORDS = st.text(alphabet='aeioñé🙂 \n"\\{}[],:</>', max_size=60)


def roles(texts):
    """Return texts as messages of user and assistant in turns, ending with the user's."""
    first = len(texts) % 2
    return [
        {"role": ("user", "assistant")[(number + 1 + first) % 2], "content": text}
        for number, text in enumerate(texts)
    ]


def traced(_standin, messages, answer):
    tracereel.traced_llm("m")(lambda messages: {"role": "assistant", "content": answer})(messages)  # noqa: ARG005 - recorded


def by_openai(standin, messages, answer):
    said = {"role": "assistant", "content": answer}
    choice = {"index": 0, "message": said, "finish_reason": "stop"}
    standin.will(
        Reply(answer={"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]})
    )
    client = openai.OpenAI(api_key="k", base_url=f"{standin.url}/v1")
    with openai_integration.wrap(client) as wrapped:
        wrapped.chat.completions.create(model="m", messages=messages)


def by_anthropic(standin, messages, answer):
    said = {"id": "msg", "type": "message", "role": "assistant", "model": "m"}
    content = [{"type": "text", "text": answer}]
    usage = {"input_tokens": 1, "output_tokens": 1}
    standin.will(Reply(answer={**said, "content": content, "stop_reason": "end", "usage": usage}))
    with anthropic.Anthropic(api_key="k", base_url=standin.url) as client:
        anthropic_integration.wrap(client).messages.create(
            model="m", max_tokens=100, messages=messages
        )


def by_google(standin, messages, answer):
    said = {"content": {"role": "model", "parts": [{"text": answer}]}, "finishReason": "STOP"}
    standin.will(Reply(answer={"candidates": [said], "modelVersion": "m"}))
    options = types.HttpOptions(base_url=standin.url)
    client = google_integration.wrap(genai.Client(api_key="k", http_options=options))
    names = {"user": "user", "assistant": "model"}
    contents = [
        {"role": names[each["role"]], "parts": [{"text": each["content"]}]} for each in messages
    ]
    client.models.generate_content(model="m", contents=contents)


def by_langchain(standin, messages, answer):
    said = {"role": "assistant", "content": answer}
    choice = {"index": 0, "message": said, "finish_reason": "stop"}
    standin.will(
        Reply(answer={"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]})
    )
    model = ChatOpenAI(model="m", api_key="k", base_url=f"{standin.url}/v1")
    model.invoke(messages, config={"callbacks": [TracereelHandler()]})


SOURCES = {
    "decorator": traced,
    "openai": by_openai,
    "anthropic": by_anthropic,
    "google": by_google,
    "langchain": by_langchain,
}


def parts(messages):
    """Return messages in OpenTelemetry's schema."""
    return json.dumps(
        [
            {"role": each["role"], "parts": [{"type": "text", "content": each["content"]}]}
            for each in messages
        ]
    )


def numbered(prefix, within, messages):
    return {
        f"{prefix}.{number}{within}.{name}": value
        for number, each in enumerate(messages)
        for name, value in each.items()
    }


def gen_ai(messages, answer):
    about = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": parts(messages)}
    return {**about, "gen_ai.output.messages": parts([answer])}


def openinference(messages, answer):
    return {
        "openinference.span.kind": "LLM",
        **numbered("llm.input_messages", ".message", messages),
        **numbered("llm.output_messages", ".message", [answer]),
    }


def openllmetry(messages, answer):
    return {
        "llm.request.type": "chat",
        **numbered("gen_ai.prompt", "", messages),
        **numbered("gen_ai.completion", "", [answer]),
    }


def langfuse(messages, answer):
    return {
        "langfuse.observation.type": "generation",
        "langfuse.observation.input": json.dumps(messages),
        "langfuse.observation.output": json.dumps(answer),
    }


def span_events(messages, answer):
    asked = [(f"gen_ai.{each['role']}.message", {"content": each["content"]}) for each in messages]
    choice = {"index": 0, "message": json.dumps(answer)}
    return {"gen_ai.operation.name": "chat", "events": [*asked, ("gen_ai.choice", choice)]}


def openinference_whole(messages, answer):
    return {
        "openinference.span.kind": "LLM",
        "input.value": json.dumps({"model": "m", "messages": messages}),
        "output.value": json.dumps({"choices": [{"index": 0, "message": answer}]}),
    }


def vercel(messages, answer):
    sent = [each | {"content": [{"type": "text", "text": each["content"]}]} for each in messages]
    return {
        "ai.operationId": "ai.generateText.doGenerate",
        "ai.prompt.messages": json.dumps(sent, ensure_ascii=False),
        "ai.response.text": answer["content"],
    }


def logfire(messages, answer):
    return {
        "gen_ai.request.model": "m",
        "request_data": json.dumps({"model": "m", "messages": messages}),
        "response_data": json.dumps({"message": answer}),
    }


def listed_events(messages, answer):
    asked = [each | {"event.name": f"gen_ai.{each['role']}.message"} for each in messages]
    choice = {"event.name": "gen_ai.choice", "index": 0, "message": answer}
    return {"gen_ai.operation.name": "chat", "all_messages_events": json.dumps([*asked, choice])}


def mlflow(messages, answer):
    return {
        "mlflow.spanType": "CHAT_MODEL",
        "mlflow.spanInputs": json.dumps({"messages": messages}),
        "mlflow.spanOutputs": json.dumps({"choices": [{"message": answer}]}),
    }


def laminar(messages, answer):
    return {
        "lmnr.span.type": "LLM",
        "lmnr.span.input": json.dumps(messages),
        "lmnr.span.output": json.dumps([answer]),
    }


def langsmith(messages, answer):
    def made(each):
        name = {"user": "HumanMessage", "assistant": "AIMessage"}[each["role"]]
        kind = {"user": "human", "assistant": "ai"}[each["role"]]
        place = ["langchain", "schema", "messages", name]
        said = {"content": each["content"], "type": kind}
        return {"lc": 1, "type": "constructor", "id": place, "kwargs": said}

    said = {"text": answer["content"], "type": "ChatGeneration", "message": made(answer)}
    return {
        "langsmith.span.kind": "llm",
        "gen_ai.prompt": json.dumps({"messages": [[made(each) for each in messages]]}),
        "gen_ai.completion": json.dumps({"generations": [[said]]}),
    }


def adk(messages, answer):
    def made(each):
        role = {"user": "user", "assistant": "model"}[each["role"]]
        return {"role": role, "parts": [{"text": each["content"]}]}

    asked = {"model": "m", "contents": [made(each) for each in messages]}
    return {
        "gen_ai.operation.name": "call_llm",
        "gen_ai.request.model": "m",
        "gcp.vertex.agent.llm_request": json.dumps(asked),
        "gcp.vertex.agent.llm_response": json.dumps({"content": made(answer)}),
    }


DIALECTS = (
    *(gen_ai, openinference, openinference_whole, openllmetry, langfuse, span_events, vercel),
    *(logfire, listed_events, mlflow, laminar, langsmith, adk),
)


@pytest.fixture(scope="module", params=[False, True], ids=["redaction off", "redaction on"])
def recording(request, collector, tmp_path_factory):
    before = _recorder._active
    tracereel.configure(
        endpoint=collector.url,
        spool_dir=tmp_path_factory.mktemp("spool"),
        redaction=request.param,
        event_logs="off",
    )
    yield request.param
    tracereel.shutdown()
    _recorder._active = before


def said(messages):
    return [
        (message["role"], "".join(part["text"] for part in message["parts"]))
        for message in messages
    ]


def stored_content(collector, trace_id, step):
    """Return the content of a step as soon as it is stored whole."""
    path = f"{collector.url}/v1/traces/{trace_id}/steps/{step}/content"

    def stored():
        answer = http("GET", path)
        return answer.status == 200 and not (found := answer.json()).get("omitted") and found

    found = wait_until(stored, timeout=60)
    assert "cut" not in found
    return found


def content_of(collector, trace_id, step):
    """Return roles and texts of both sides of a step."""
    found = stored_content(collector, trace_id, step)
    return said([*found.get("input", ()), *found.get("output", ())])


def model_call(collector, trace_id):
    """Return the step id of the only model call of a run."""

    def stored():
        steps = collector.replay(trace_id).json().get("timeline", ())
        return [each["details"]["span_id"] for each in steps if each["event"] == "agent.llm.called"]

    (step,) = wait_until(stored, timeout=60)
    return step


def many(strategy):
    """Return a strategy of what is sent together, because each insert takes the engine long."""
    return st.lists(strategy, min_size=5, max_size=9)


def conversations(texts):
    """Return a strategy of conversations: messages that end with the user's, and the answer."""
    return many(st.lists(texts, min_size=2, max_size=6))


FEW = settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("source", SOURCES)
@FEW
@given(data=st.data())
def test_an_sdk_call_is_returned_as_it_was_sent(recording, collector, standin, source, data):
    # Random characters may look like a secret, and some texts are JSON, which is read as values.
    texts = WORDS if recording else st.text(max_size=300)
    texts = st.builds("<{}>".format, texts)
    sent = data.draw(conversations(texts))
    if recording:
        sent = [[*talk, f"{talk[0]} | {SECRET} | {EMAIL} | {talk[-1]}", "ok"] for talk in sent]
    runs = []
    for *asked, answer in sent:
        with tracereel.traced_agent("around"):
            runs.append(tracereel.current_execution().trace_id)
            SOURCES[source](standin, roles(asked), answer)
    assert tracereel.flush(60).dropped == 0

    for (*asked, answer), trace_id in zip(sent, runs, strict=True):
        found = content_of(collector, trace_id, model_call(collector, trace_id))
        wanted = [*((each["role"], each["content"]) for each in roles(asked))]
        wanted.append(("assistant", answer))
        if recording:
            role, text = found.pop(-2)
            secret, (first, *_, last) = wanted.pop(-2), text.split(" | ")
            assert (role, first, last) == (secret[0], asked[0], asked[-2])
            assert text.count(" | ") == 3
            assert SECRET not in text
            assert EMAIL not in text
        assert found == wanted


@pytest.mark.parametrize("dialect", DIALECTS)
@FEW
@given(sent=conversations(st.builds("<{}>".format, st.text(max_size=300))))
def test_a_span_of_any_dialect_is_returned_as_it_was_sent(collector, dialect, sent):
    calls = [
        dialect(roles(asked), {"role": "assistant", "content": answer}) for *asked, answer in sent
    ]
    name = uuid.uuid4().hex[:16]
    body = request(name, calls)
    assert http("POST", f"{collector.url}/v1/traces", body, PROTOBUF).status == 200

    for number, (*asked, answer) in enumerate(sent, 1):
        found = content_of(collector, name.encode().hex(), number.to_bytes(8, "big").hex())
        wanted = [(each["role"], each["content"]) for each in roles(asked)]
        assert found == [*wanted, ("assistant", answer)]


NAMES = st.from_regex(r"\A[a-z]{1,8}\Z")
"""Names of arguments; JSON that is text is read as a value, which is why texts stand between signs."""


def values(texts):
    """Return a strategy of the values that JSON has."""
    numbers = st.integers(-(2**53), 2**53)
    leaves = st.one_of(st.none(), st.booleans(), numbers, st.builds("<{}>".format, texts))
    nested = st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
        max_leaves=12,
    )
    return st.dictionaries(NAMES, nested, min_size=1, max_size=4)


def around_of(kind, given, made):
    """Call a function of a kind with a value; return its run and step."""

    @{
        "agent": tracereel.traced_agent("valued"),
        "pipeline": tracereel.traced_pipeline("valued"),
        "step": tracereel.traced_step("valued"),
        "tool": tracereel.traced_tool("valued"),
    }[kind]
    def call(given):
        execution = tracereel.current_execution()
        places.append((execution.trace_id, execution.span_id))
        return made

    places = []
    call(given)
    return places[0]


@pytest.mark.parametrize("kind", ["agent", "pipeline", "step", "tool"])
@FEW
@given(data=st.data())
def test_values_are_returned_as_they_were_sent(recording, collector, kind, data):
    texts = WORDS if recording else st.text(max_size=300)
    sent = data.draw(many(st.tuples(values(texts), values(texts))))
    if recording:
        hidden = {"text": f"<{SECRET} {EMAIL}>", "left": True}
        sent = [(put | {"zz": hidden}, made) for put, made in sent]
    places = [around_of(kind, *each) for each in sent]
    assert tracereel.flush(60).dropped == 0

    names = ("arguments", "result") if kind == "tool" else ("input", "output")
    for (put, made), place in zip(sent, places, strict=True):
        found = stored_content(collector, *place)
        asked, answered = (found[name] for name in names)
        asked = asked["given"]
        if recording:
            text = asked.pop("zz")
            assert (text["left"], text["text"][0]) == (True, "<")
            assert SECRET not in text["text"]
            assert EMAIL not in text["text"]
            put = {name: value for name, value in put.items() if name != "zz"}
        assert (asked, answered) == (put, made)


TOOLS = {
    "gen_ai": ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
    "openinference": ("input.value", "output.value"),
    "openllmetry": ("traceloop.entity.input", "traceloop.entity.output"),
    "langfuse": ("langfuse.observation.input", "langfuse.observation.output"),
    "vercel": ("ai.toolCall.args", "ai.toolCall.result"),
    "mlflow": ("mlflow.spanInputs", "mlflow.spanOutputs"),
    "laminar": ("lmnr.span.input", "lmnr.span.output"),
    "adk": ("gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response"),
}


@pytest.mark.parametrize("dialect", TOOLS)
@FEW
@given(sent=many(st.tuples(values(st.text(max_size=300)), values(st.text(max_size=300)))))
def test_a_tool_of_any_dialect_is_returned_as_it_was_sent(collector, dialect, sent):
    about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    calls = [about | dict(zip(TOOLS[dialect], map(json.dumps, each), strict=True)) for each in sent]
    name = uuid.uuid4().hex[:16]
    body = request(name, calls)
    assert http("POST", f"{collector.url}/v1/traces", body, PROTOBUF).status == 200

    for number, (put, made) in enumerate(sent, 1):
        step = number.to_bytes(8, "big").hex()
        found = stored_content(collector, name.encode().hex(), step)
        assert (found["arguments"], found["result"]) == (put, made)


@FEW
@given(data=st.data())
def test_the_output_of_a_streaming_agent_is_returned(collector, recording, data):
    texts = WORDS if recording else st.text(max_size=300)
    talks = data.draw(many(st.tuples(texts, st.lists(texts, max_size=5))))
    runs = []
    for question, tokens in talks:
        tokens = [f"<{token}>" for token in tokens] or ["."]
        frames = [
            *(f"event: token\ndata: {json.dumps({'text': token})}\n\n" for token in tokens),
            'event: done\ndata: {"sources": []}\n\n',
        ]
        trace_id = uuid.uuid4().hex

        @sse.traced_sse("streaming", trace_id=trace_id)
        def ask(message, frames=frames):
            yield from frames

        list(ask(f"<{question}>"))
        runs.append((trace_id, f"<{question}>", "".join(tokens)))
    assert tracereel.flush(60).dropped == 0
    for trace_id, question, answer in runs:

        def stored(trace_id=trace_id):
            steps = collector.replay(trace_id).json().get("timeline", ())
            return [
                each["details"]["span_id"]
                for each in steps
                if each["event"] == "agent.execution.completed"
            ]

        (step,) = wait_until(stored, timeout=60)
        found = stored_content(collector, trace_id, step)
        assert (found["asked"], found["answered"]) == (question, answer)
