"""The view `otel_content`: bounded memory for conversations of usual length."""

import json
import uuid

import pytest

from tests.collector.store.dialects.handwritten import START, request
from tracereel_collector.model import Kind, QueuedBody

CALLS, MESSAGES = 20, 40
MOST_BYTES = 64 * 1024 * 1024
TEXT = "All happy families are alike; each unhappy family is unhappy in its own way. " * 13


def openinference(number):
    """Return the attributes of one message with a tool call every third time."""
    name = f"llm.input_messages.{number}.message"
    found = {f"{name}.role": "user", f"{name}.content": f"{number} {TEXT}"}
    if number % 3 == 0:
        call = f"{name}.tool_calls.0.tool_call"
        found |= {
            f"{call}.id": f"call_{number}",
            f"{call}.function.name": "look",
            f"{call}.function.arguments": json.dumps({"at": TEXT}),
        }
    return found


def openllmetry(number):
    return {
        f"gen_ai.prompt.{number}.role": "user",
        f"gen_ai.prompt.{number}.content": f"{number} {TEXT}",
    }


def conversation(form):
    """Return the attributes of one model call with many messages."""
    about = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    numbers = range(MESSAGES)
    if form == "gen_ai":
        parts = [{"type": "text", "content": f"{number} {TEXT}"} for number in numbers]
        messages = [{"role": "user", "parts": [part]} for part in parts]
        return about | {"gen_ai.input.messages": json.dumps(messages)}
    if form == "events":
        events = [("gen_ai.user.message", {"content": f"{number} {TEXT}"}) for number in numbers]
        return about | {"events": events}
    if form == "blocks":
        blocks = [{"type": "text", "text": f"{number} {TEXT}"} for number in numbers]
        return about | {
            "input.value": json.dumps({"messages": [{"role": "user", "content": blocks}]})
        }
    spread = openinference if form == "openinference" else openllmetry
    return about | {name: value for number in numbers for name, value in spread(number).items()}


@pytest.mark.parametrize("form", ["openinference", "openllmetry", "gen_ai", "events", "blocks"])
def test_a_trace_of_long_conversations_is_read_in_little_memory(migrated, form):
    tenant = f"content-{uuid.uuid4().hex}"
    body = QueuedBody(
        id=1,
        kind=Kind.SPANS,
        tenant=tenant,
        first_sequence_number=1,
        records=CALLS,
        received_unix_nano=START,
        data=request("content", [conversation(form)] * CALLS),
    )
    migrated.insert(Kind.SPANS, [body], token=tenant)

    answer = migrated.select(
        "SELECT InputMessages FROM otel_content WHERE TenantId = {tenant:String}"
        f" SETTINGS max_memory_usage = {MOST_BYTES}, max_threads = 2",
        {"tenant": tenant},
        fmt="JSONEachRow",
    )

    found = [json.loads(json.loads(line)["InputMessages"]) for line in answer.splitlines()]
    texts = [part["content"] for each in found[0] for part in each["parts"] if "content" in part]
    assert len(found) == CALLS
    assert texts == [f"{number} {TEXT}" for number in range(MESSAGES)]
