"""The scene that every client plays: a tool round, a streamed answer and a failing call."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

SESSION, USER, AGENT = "talk-1", "user-1", "guide"
MODEL = "gpt-4o-mini"
BROKEN = "broken"
"""Model for which the stand-in answers 429."""
SYSTEM = "You are brief."
QUESTION = "What is the weather in Lima?"
WEATHER = {"sky": "sunny"}
LATEST = {
    "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
}
IN_EVENTS = LATEST | {
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "EVENT_ONLY",
    "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT": "true",
}
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
CHAT_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city",
            "parameters": PARAMETERS,
        },
    }
]
ASKED = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]


def get_weather(city: str) -> dict:
    """The weather in a city."""
    return WEATHER


class Provider:
    """OpenTelemetry's SDK, exporting to the stand-in."""

    def __init__(self, server):
        from opentelemetry import _logs, trace
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor

        resource = Resource({"service.name": "recorder"})
        self.traces = TracerProvider(resource=resource)
        self.traces.add_span_processor(
            SimpleSpanProcessor(OTLPSpanExporter(f"{server.url}/v1/traces"))
        )
        self.logs = LoggerProvider(resource=resource)
        self.logs.add_log_record_processor(
            SimpleLogRecordProcessor(OTLPLogExporter(f"{server.url}/v1/logs"))
        )
        trace.set_tracer_provider(self.traces)
        _logs.set_logger_provider(self.logs)
        self.tracer = self.traces.get_tracer("recorder")

    def instrument(self, *instrumentors):
        """Switch instrumentations on, by `module:Class`."""
        for each in instrumentors:
            module, _, name = each.partition(":")
            made = getattr(__import__(module, fromlist=[name]), name)()
            made.instrument(tracer_provider=self.traces, logger_provider=self.logs)


def openai_client(server, openai=None):
    """Return a client of OpenAI that calls the stand-in."""
    if openai is None:
        import openai
    return openai.OpenAI(api_key="x", base_url=f"{server.url}/v1", max_retries=0)


def play_chat(server, client=None, tool=get_weather):
    """Play the scene with OpenAI's chat completions."""
    client = client or openai_client(server)
    create = client.chat.completions.create
    first = create(model=MODEL, messages=ASKED, tools=CHAT_TOOLS, temperature=0.2)
    message = first.choices[0].message
    (call,) = message.tool_calls
    result = tool(**json.loads(call.function.arguments))
    answered = {"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)}
    said = message.model_dump(exclude_none=True)
    create(model=MODEL, messages=[*ASKED, said, answered], tools=CHAT_TOOLS)
    chunks = create(
        model=MODEL, messages=ASKED, stream=True, stream_options={"include_usage": True}
    )
    for _ in chunks:
        pass
    fail(lambda: create(model=BROKEN, messages=ASKED))


def play_parallel(server):
    """Play two calls at the same time, a streamed answer and a failing call with OpenAI's client."""
    create = openai_client(server).chat.completions.create
    with ThreadPoolExecutor(2) as pool:
        both = [
            pool.submit(copy_context().run, create, model=MODEL, messages=ASKED) for _ in range(2)
        ]
    assert all(each.result().choices for each in both)
    chunks = create(
        model=MODEL, messages=ASKED, stream=True, stream_options={"include_usage": True}
    )
    for _ in chunks:
        pass
    fail(lambda: create(model=BROKEN, messages=ASKED))


def play_anthropic(server):
    """Play a call and a streamed answer with Anthropic's client."""
    from anthropic import Anthropic

    client = Anthropic(api_key="x", base_url=server.url, max_retries=0)
    asked = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 64,
        "system": SYSTEM,
        "messages": [{"role": "user", "content": QUESTION}],
    }
    tool = {"name": "get_weather", "description": "The weather", "input_schema": PARAMETERS}
    client.messages.create(**asked, tools=[tool])
    for _ in client.messages.create(**asked, stream=True):
        pass
    fail(lambda: client.messages.create(**asked | {"model": BROKEN}))


def fail(call):
    """Make a call that fails."""
    try:
        call()
    except Exception as error:
        print(f"failed as it should: {type(error).__name__}")
    else:
        raise AssertionError("the call did not fail")


async def await_failure(call):
    """Await a call that fails."""
    try:
        await call
    except Exception as error:
        print(f"failed as it should: {type(error).__name__}")
    else:
        raise AssertionError("the call did not fail")


def environ(**values):
    """Set variables that packages read when imported."""
    os.environ.update(values)
