"""Checks of the normaliser of results."""

import json
import logging

import pytest

import tracereel
from tests.seeds.registry import check, collector_check
from tracereel import providers
from tracereel.providers import (
    PERSISTENCE,
    BatchResultNormalizer,
    canonical_stop_reason,
    message_fields,
    to_event_store,
    usage_of,
)
from tracereel.testing import EventRecorder


def human(text="Create a sales order"):
    return {"type": "human", "content": text}


def ai(*blocks, **fields):
    return {"type": "ai", "id": "msg_1", "content": list(blocks), **fields}


def text(value):
    return {"type": "text", "text": value}


def thinking(value):
    return {"type": "thinking", "thinking": value}


def tool_use(identity="toolu_1", name="create_order", **arguments):
    return {"type": "tool_use", "id": identity, "name": name, "input": arguments}


def execution(identity="toolu_1", result="SO-001", **fields):
    given = {"toolUseId": identity, "toolName": "create_order", "result": result}
    return {**given, "success": True, **fields}


USAGE = {"input_tokens": 10, "output_tokens": 5, "output_tokens_details": {"thinking_tokens": 2}}
FIRST = ai(
    thinking("I need to..."),
    text("I will create the order."),
    tool_use(customer="X"),
    response_metadata={"stop_reason": "tool_use", "usage": USAGE},
)
LAST = {
    **ai(
        text("Done! Order SO-001 created."),
        response_metadata={
            "stop_reason": "end_turn",
            "usage": USAGE,
            "model_name": "claude-sonnet-4-5",
        },
    ),
    "id": "msg_2",
}
FAILED_TOOL = execution(success=False, error="no stock")
STATE = {
    "messages": [human(), FIRST, {"type": "tool", "content": "Order created: SO-001"}, LAST],
    "toolExecutions": [execution(result="Order created: SO-001")],
}


def normalized(*messages, executions=(), whole_turn=False, **options):
    state = {"messages": list(messages), "toolExecutions": list(executions)}
    return BatchResultNormalizer(**options).normalize(state, whole_turn=whole_turn)


def kinds(result):
    return [event.type for event in result.events]


def every_event():
    """Return one event of each type, by type."""
    turn = BatchResultNormalizer(session_id="s", model="m")
    failed = {**STATE, "toolExecutions": [FAILED_TOOL]}
    paused = {"response_metadata": {"stop_reason": "pause_turn"}}
    refused = {"response_metadata": {"stop_reason": "refusal"}}
    approval = {"id": "a1", "toolName": "pay", "question": "may I?"}
    resolved = {**approval, "approved": True, "requested_at": 1.0, "resolved_at": 2.0}
    results = [
        turn.normalize(TimeoutError("after 30s")),
        turn.normalize([ai(text("wait"), **paused)]),
        turn.normalize([ai(text("no"), **refused)]),
        turn.normalize({"messages": [ai(text("ask"))], "approvals": [resolved]}),
        turn.normalize(failed, whole_turn=True),
    ]
    return {event.type: event for result in results for event in result.events}


@check
def normalized_type(row, evidence):
    assert every_event()[row["type"]].type == row["type"]


@check
def normalized_field(row, evidence):
    value = every_event()[row["on"]]
    for name in row["path"].split("."):
        value = getattr(value, name)
    assert type(value).__name__ == row["type"]


@check
def metadata_object(row, evidence):
    events = every_event()
    assert events["tool_request"].tool_call is not None
    assert events["tool_response"].tool_result is not None
    assert events["error"].failure is not None
    assert events["assistant_message"].usage is not None
    assert events["approval_resolved"].approval is not None


@check
def token_usage(row, evidence):
    usage = normalized(FIRST).usage
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens) == (10, 5, 2)
    stored = to_event_store(normalized(FIRST).events[-1])
    assert stored["data"]["token_usage"] == {"input": 10, "output": 5, "thinking": 2}


@check
def normalize_in_order(row, evidence):
    result = BatchResultNormalizer().normalize(STATE)
    indexes = [event.original_index for event in result.events]
    assert indexes == sorted(set(indexes))


# Adapters by provider.


def batch_adapter(provider):
    """Return the adapter for complete results of a provider."""
    return providers.BatchAdapterFactory.create(provider)


@check
def normalize_with_adapter(row, evidence):
    with_adapter = BatchResultNormalizer().normalize(STATE, batch_adapter("anthropic"))
    alone = BatchResultNormalizer(provider="anthropic").normalize(STATE)
    assert with_adapter.events == alone.events


@check
def adapter_methods(row, evidence):
    assert isinstance(batch_adapter("anthropic"), providers.AnthropicAdapter)
    for provider in ("anthropic", "openai", "azure_openai", "google"):
        adapter = batch_adapter(provider)
        assert adapter.provider == provider
        for method in (
            *("normalize_message", "detect_block_type"),
            *("normalize_stop_reason", "extract_usage"),
        ):
            assert callable(getattr(adapter, method))


@check
def adapter_normalize_message(row, evidence):
    events = batch_adapter("anthropic").normalize_message(FIRST, 1)
    assert [event.type for event in events] == ["thinking", "assistant_message", "tool_request"]
    assert events[0].original_index == 1


@check
def adapter_block_type(row, evidence):
    detect = batch_adapter("anthropic").detect_block_type
    assert [detect(block) for block in (thinking("a"), text("b"), tool_use())] == [
        "thinking",
        "text",
        "tool_use",
    ]


@check
def adapter_factory(row, evidence):
    assert batch_adapter("anthropic").provider == "anthropic"
    with pytest.raises(providers.UnknownProviderError, match="cohere"):
        batch_adapter("cohere")


@check
def extract_usage(row, evidence):
    assert usage_of(FIRST).input_tokens == 10
    assert usage_of(ai(text("x"))) is None


@check
def block(row, evidence):
    blocks = {"thinking": thinking("a"), "text": text("a"), "tool_use": tool_use(n=1)}
    (event,) = normalized(ai(blocks[row["block"]])).events
    assert event.type == row["event"]
    if row["block"] == "tool_use":
        call = event.tool_call
        assert (call.id, call.name, call.arguments) == ("toolu_1", "create_order", {"n": 1})
    else:
        assert event.content == "a"


@check
def stop_reason(row, evidence):
    assert canonical_stop_reason(row["word"], row["provider"]) == (row["means"], None)
    result = normalized(
        ai(text("x"), response_metadata={"stop_reason": row["word"]}), provider=row["provider"]
    )
    assert (result.stop_reason, result.stop_reason_raw) == (row["means"], row["word"])


class _Warnings(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())


@check
def unknown_stop_reason(row, evidence):
    handler, word = _Warnings(), f"stop_of_row_{row.id}"
    logging.getLogger("tracereel").addHandler(handler)
    try:
        result = normalized(ai(text("x"), response_metadata={"stop_reason": word}))
    finally:
        logging.getLogger("tracereel").removeHandler(handler)
    assert result.stop_reason == "success"
    assert [problem.code for problem in result.problems] == ["unknown_stop_reason"]
    assert any(word in message for message in handler.messages)


@check
def usage_place(row, evidence):
    usage = normalized(ai(text("x"), **row["message"])).usage
    assert (usage.input_tokens, usage.output_tokens) == (9, 4)
    assert usage.reasoning_tokens == row.options.get("thinking")


TWO_CALLS = ai(tool_use("a"), tool_use("b", "send_mail"))
CASES = {
    "text only": (lambda: normalized(ai(text("a"))), ["assistant_message"]),
    "thinking, then text": (
        lambda: normalized(ai(thinking("a"), text("b"))),
        ["thinking", "assistant_message"],
    ),
    "tool use": (
        lambda: normalized(ai(tool_use()), LAST, executions=[execution()]),
        ["tool_request", "tool_response", "assistant_message"],
    ),
    "mixed blocks in block order": (
        lambda: normalized(ai(text("b"), thinking("a"), tool_use(), text("c"))),
        ["assistant_message", "thinking", "tool_request", "assistant_message"],
    ),
    "a loop of several messages": (
        lambda: BatchResultNormalizer().normalize(STATE),
        [
            *("thinking", "assistant_message", "tool_request", "tool_response"),
            "assistant_message",
        ],
    ),
    "tool results from `toolExecutions`": (
        lambda: normalized(ai(tool_use()), executions=[execution(result="only there")]),
        ["tool_request", "tool_response"],
    ),
    "request and response have the same tool id": (
        lambda: normalized(ai(tool_use("t7")), executions=[execution("t7")]),
        ["tool_request", "tool_response"],
    ),
    "several tool calls": (
        lambda: normalized(TWO_CALLS, executions=[execution("a"), execution("b")]),
        ["tool_request", "tool_request", "tool_response", "tool_response"],
    ),
    "a tool event that is in messages and executions is emitted once": (
        lambda: normalized(
            ai(tool_use()),
            {"type": "tool", "content": "SO-001", "tool_call_id": "toolu_1"},
            executions=[execution()],
        ),
        ["tool_request", "tool_response"],
    ),
    "an empty list of messages": (normalized, []),
    "no message of the model": (lambda: normalized(human()), []),
    "malformed blocks are reported, the others kept": (
        lambda: normalized(ai(7, None, {"type": "text"}, text("kept"))),
        ["assistant_message"],
    ),
}
"""Case → what is normalised, and the types of its events."""


@check
def normalizer_case(row, evidence):
    make, expected = CASES[row["case"]]
    result = make()
    assert kinds(result) == expected
    requests = [event.tool_call.id for event in result.events if event.tool_call]
    responses = [event.tool_result.call_id for event in result.events if event.tool_result]
    assert set(responses) <= set(requests)
    assert bool(result.problems) is row["case"].startswith("malformed")


@check
def complete_example(row, evidence):
    result = BatchResultNormalizer().normalize(STATE)
    found = [(event.type, event.content, event.original_index) for event in result.events]
    assert found == [
        ("thinking", "I need to...", 1),
        ("assistant_message", "I will create the order.", 2),
        ("tool_request", None, 3),
        ("tool_response", "Order created: SO-001", 4),
        ("assistant_message", "Done! Order SO-001 created.", 5),
    ]


# Persistence.


@check
def persistence_rule(row, evidence):
    assert PERSISTENCE[row["type"]] == row["strategy"]
    assert every_event()[row["type"]].persistence_strategy == row["strategy"]


@collector_check
def sync_is_spooled(row, evidence):
    done = json.loads(evidence.run_with_collector("sync_event.py", "trc_sync").stdout)
    assert done["in_spool"]
    assert done["stored"]


def stored_turn(evidence):
    """Return the stored events of a turn that an agent emitted, by message type."""
    trace_id = "trc_turn"
    if "turn" not in vars(evidence):
        with (
            EventRecorder() as recorder,
            tracereel.traced_agent(
                "orchestrator", trace_id=trace_id, session_id="ses_turn", user_id="user_turn"
            ) as agent,
        ):
            for event in BatchResultNormalizer().normalize(STATE, whole_turn=True).events:
                agent.emit(message_fields(event))
        evidence.store([{**event, "emitter_id": "emt_turn"} for event in recorder])
        evidence.turn = evidence.replay(trace_id)["timeline"]
    found = [entry["details"] for entry in evidence.turn]
    return {each["message_type"]: each for each in found if "message_type" in each}


@collector_check
def async_is_stored(row, evidence):
    turn = stored_turn(evidence)
    assert turn["tool_response"]["content"] == "Order created: SO-001"
    assert turn["tool_request"]["arguments"] == {"customer": "X"}


@collector_check
def transient_is_not_stored(row, evidence):
    turn = stored_turn(evidence)
    assert turn["thinking"]["persistence_strategy"] == "transient"
    assert "I need to..." not in json.dumps(turn["thinking"])
    assert turn["thinking"]["content_size_bytes"] == len("I need to...")
    assert turn["assistant_message"]["content"] == "Done! Order SO-001 created."


@check
def generic_emission(row, evidence):
    with EventRecorder() as recorder, tracereel.traced_agent("orchestrator") as agent:
        for event in BatchResultNormalizer().normalize(STATE, whole_turn=True).events:
            agent.emit(message_fields(event))
    found = [event["message_type"] for event in recorder if "message_type" in event]
    assert found == kinds(BatchResultNormalizer().normalize(STATE, whole_turn=True))


# Models.


@check
def used_model(row, evidence):
    state = {"messages": [ai(text("a"))], "usedModel": "claude-haiku-4-5"}
    assert BatchResultNormalizer().normalize(state).model == "claude-haiku-4-5"


@check
def used_model_precedence(row, evidence):
    named = ai(text("a"), response_metadata={"model_name": "claude-sonnet-4-5"})
    state = {"messages": [named, ai(text("b"))], "usedModel": "claude-haiku-4-5"}
    models = [event.model for event in BatchResultNormalizer().normalize(state).events]
    assert models == ["claude-sonnet-4-5", "claude-haiku-4-5"]


@check
def agent_sets_model(row, evidence):
    with EventRecorder() as recorder, tracereel.traced_agent("bc_agent") as agent:
        agent.set(llm_model="claude-haiku-4-5")
    (completed,) = recorder.get_events("agent.execution.completed")
    assert completed["llm_model"] == "claude-haiku-4-5"


@check
def unknown_model(row, evidence):
    assert normalized(ai(text("a"))).model == "unknown"


@check
def event_store_name(row, evidence):
    assert to_event_store(every_event()[row["type"]])["event_type"] == row["name"]
