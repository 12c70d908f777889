"""Checks of the agent backend: context, limits, ordering, tenants."""

import asyncio
import json
import os
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, StateGraph

import tracereel
from tests.seeds.checks import results
from tests.seeds.evidence import KEYS
from tests.seeds.registry import check, collector_check
from tests.seeds.types import is_of_type
from tests.support.collector import http
from tests.support.contract import example
from tests.support.flaky_proxy import FlakyProxy
from tracereel.demo import orchestrator, questions
from tracereel.integrations.langgraph import wrap
from tracereel.providers import (
    PERSISTENCE,
    BatchResultNormalizer,
    Routing,
    canonical_stop_reason,
    to_event_store,
)
from tracereel.testing import EventRecorder

COMPLETED = "agent.execution.completed"


# Execution context.


@tracereel.traced_tool("find_orders")
def find_orders(customer: str, tool_call_id: str) -> str:
    if customer == "Y":
        raise LookupError("no such customer")
    return "order 1042"


@tracereel.traced_agent("bc_agent")
def answer(prompt: str, session_id: str, user_id: str) -> str:
    tracereel.current_execution().add_usage(prompt_tokens=10, completion_tokens=5)
    tracereel.current_execution().add_usage(prompt_tokens=20, completion_tokens=7)
    found = find_orders("X", "toolu_1")
    find_orders("X", "toolu_1")
    try:
        find_orders("Y", "toolu_2")
    except LookupError:
        pass
    return found


def recorded():
    with EventRecorder() as recorder:
        answer("open orders?", session_id="ses_1", user_id="user_1")
    return recorder


@check
def context_field(row, evidence):
    (completed,) = recorded().get_events(COMPLETED)
    assert is_of_type(completed[row["path"]], row["type"])


@check
def context_callback(row, evidence):
    seen = []
    with (
        EventRecorder() as recorder,
        tracereel.traced_agent("bc_agent", on_event=seen.append) as agent,
    ):
        agent.emit({"event_type": "custom.progress", "percent": 50})
    assert [event["event_type"] for event in seen] == [event["event_type"] for event in recorder]


@check
def thinking_option(row, evidence):
    value = {"enable_thinking": True, "thinking_budget": 2048}[row["option"]]
    with EventRecorder() as recorder:
        tracereel.traced_agent("bc_agent", **{row["option"]: value})(lambda: None)()
    assert recorder.get_events()[0][row["option"]] == value


@check
def enforced_timeout(row, evidence):
    @tracereel.traced_agent("slow_agent", timeout=0.05)
    async def slow():
        await asyncio.Event().wait()

    @tracereel.traced_agent("plain_agent", timeout=0.001)
    def plain():
        time.sleep(0.01)

    with EventRecorder() as recorder:
        with pytest.raises(TimeoutError):
            asyncio.run(slow())
        plain()
    (failed,) = recorder.get_events("agent.execution.failed")
    assert (failed["error_code"], failed["timeout_seconds"]) == ("EXECUTION_TIMEOUT", 0.05)
    (marked,) = recorder.get_events(COMPLETED)
    assert marked["end_code"] == "EXECUTION_TIMEOUT"


@check
def context_created(row, evidence):
    with EventRecorder() as recorder:
        for _ in range(2):
            answer("open orders?", session_id="ses_1", user_id="user_1")
    ids = [event["execution_id"] for event in recorder.get_events(COMPLETED)]
    assert len(set(ids)) == 2


@check
def repeated_tool_call(row, evidence):
    recorder = recorded()
    calls = [event["tool_call_id"] for event in recorder.get_events("agent.tool.called")]
    assert calls == ["toolu_1", "toolu_2"]
    assert recorder.get_events(COMPLETED)[0]["duplicate_tool_calls"] == 1


@check
def event_index_without_gaps(row, evidence):
    assert [event["event_index"] for event in recorded()] == list(range(len(recorded())))


@check
def usage_set(row, evidence):
    (completed,) = recorded().get_events(COMPLETED)
    assert (completed["llm_prompt_tokens"], completed["llm_completion_tokens"]) == (30, 12)


# Routing and the demo of a graph.


def routed(text, attachments=()):
    with EventRecorder() as recorder, tracereel.traced_agent("router"):
        routing = orchestrator.route(
            text, attachments=list(attachments), ask=lambda _: orchestrator.GENERAL
        )
        tracereel.record_decision(**routing.as_decision())
    (decision,) = recorder.get_events("agent.decision.recorded")
    return decision


@check
def routing_rule(row, evidence):
    decision = routed(row["text"], row.options.get("attachments", ()))
    assert decision["decision_type"] == "routing"
    assert decision["output_data"]["rule"] == row["rule"]
    assert decision["chosen"] in decision["candidates"]


@check
def router(row, evidence):
    with pytest.raises(ValueError, match="slash_command"):
        Routing(candidates=["a"], chosen="a", rule="dice")
    assert routed("/docs return policy")["chosen"] == orchestrator.DOCUMENTS


@check
def orchestrator_demo(row, evidence):
    assert len(orchestrator.AGENTS) == 3
    with EventRecorder() as recorder:
        orchestrator.answer("/orders what is open for Contoso?", attachments=[], session_id="ses_1")
    agents = {event.get("agent_name") for event in recorder}
    assert {"orchestrator", "orders_agent"} <= agents
    assert recorder.get_events("agent.tool.called")
    assert recorder.get_events("agent.pipeline.completed")[0]["status"] == "success"


@check
def tool_execution(row, evidence):
    good, bad = recorded().get_events("agent.tool.called")
    event = bad if row["name"] == "error" else good
    value = event[row["path"]]
    if isinstance(value, dict):
        value = {name: value[name] for name in row["value"]}
    assert value == row["value"]
    assert bad["status"] == "failed"


@check
def iteration_limit(row, evidence):
    with EventRecorder() as recorder, tracereel.traced_agent("bc_agent") as agent:
        assert len(list(agent.rounds(limit=row["limit"]))) == row["limit"]
    (completed,) = recorder.get_events(COMPLETED)
    assert (completed["rounds"], completed["round_limit"]) == (10, 10)
    assert completed["end_code"] == "ITERATION_LIMIT_REACHED"


@check
def recursion_limit(row, evidence):
    assert orchestrator.RECURSION_LIMIT == 50
    builder = StateGraph(dict)
    builder.add_node("again", lambda state: state)
    builder.add_edge(START, "again")
    builder.add_edge("again", "again")
    graph = wrap(builder.compile(name="endless"))
    with EventRecorder() as recorder, pytest.raises(GraphRecursionError):
        graph.invoke({}, {"recursion_limit": orchestrator.RECURSION_LIMIT})
    failed = recorder.get_events("agent.execution.failed")[-1]
    assert failed["error_code"] == "ITERATION_LIMIT_REACHED"


@check
def time_limit(row, evidence):
    times = iter(range(0, 10_000, 299))
    agent = questions.QuestionAgent(sleep=lambda _: None, clock=lambda: float(next(times)))
    frames = list(agent.answer(questions.CONVERSATIONS[1][0].text, None))
    assert "TIME_LIMIT" in frames[-1]
    with EventRecorder() as recorder:
        tracereel.traced_agent("bc_agent", timeout=300)(lambda: None)()
        tracereel.traced_agent("bc_agent")(lambda: None)()
    assert len(recorder.get_events(COMPLETED)) == 2


# Ordering and persistence.


def new_event(**fields):
    identity = uuid.uuid4().hex
    given = {"event_id": f"evt_{identity}", "trace_id": f"trc_{identity}", **fields}
    return {**example("agent.execution.started"), **given}


@collector_check
def sequence_is_atomic(row, evidence):
    def send(_):
        answer = evidence.store([new_event() for _ in range(5)])
        return range(answer["first_sequence_number"], answer["first_sequence_number"] + 5)

    with ThreadPoolExecutor(4) as pool:
        taken = [number for numbers in pool.map(send, range(8)) for number in numbers]
    assert len(set(taken)) == 40


@collector_check
def sequence_per_session(row, evidence):
    for number in range(4):
        evidence.store([new_event(session_id="ses_numbers", trace_id=f"trc_n{number % 2}")])
    answer = evidence.get("/v1/sessions/ses_numbers?events=100")
    assert answer.status == 200, answer.body
    found = [event["session_sequence"] for event in answer.json()["events"]]
    assert found == [1, 2, 3, 4]


@collector_check
def sequence_never_null(row, evidence):
    for document in (evidence.stored_declared, evidence.stored_plain):
        assert all(is_of_type(e["details"]["sequence_number"], "int") for e in document["timeline"])


@collector_check
def acknowledged_before_stored(row, evidence):
    event = new_event()
    answer = evidence.collector.post_events([event], headers=evidence.headers, wait=False).json()
    assert answer["accepted"] == 1
    assert answer["first_sequence_number"] > 0
    evidence.settle()
    assert evidence.replay(event["trace_id"])["timeline"]


@collector_check
def wait_stored(row, evidence):
    event = new_event()
    assert evidence.store([event])["status"] == "stored"
    assert evidence.client.replay(event["trace_id"]).timeline


@collector_check
def sequence_without_redis(row, evidence):
    """Numbers go on after a crash of the collector."""
    first = evidence.store([new_event()])["first_sequence_number"]
    evidence.collector.kill()
    evidence.collector.start()
    assert evidence.store([new_event()])["first_sequence_number"] > first


@collector_check
def event_store_field(row, evidence):
    message = results.stored_turn(evidence)["assistant_message"]
    assert is_of_type(message[row["path"]], row["type"])


@check
def frontend_event(row, evidence):
    event = results.every_event()[row["type"]]
    assert to_event_store(event)["type"] == row["name"]
    assert (event.persistence_strategy == "sync") is (row["state"] == "persisted")


@check
def persisted_only_after(row, evidence):
    """An event is persisted once `emit` says so, and transient ones never are."""
    for event in results.every_event().values():
        assert to_event_store(event)["persistence_state"] == "transient"
        kept = "persisted" if event.persistence_strategy == "sync" else "transient"
        for emitted, state in (("stored", kept), ("spooled", kept), ("dropped", "transient")):
            assert to_event_store(event, emitted)["persistence_state"] == state


@check
def retired(row, evidence):
    events = results.every_event()
    assert row["name"] not in PERSISTENCE
    assert row["name"] not in {to_event_store(event)["type"] for event in events.values()}


# Failures.


def failed_with(error):
    @tracereel.traced_agent("failing_agent")
    def fail():
        raise error

    with EventRecorder() as recorder, pytest.raises(type(error)) as raised:
        fail()
    assert raised.value is error
    (failed,) = recorder.get_events("agent.execution.failed")
    return failed


@check
def failure(row, evidence):
    builtin = {"TimeoutError": TimeoutError, "FileNotFoundError": FileNotFoundError}
    kind = builtin.get(row["error"]) or type(row["error"], (Exception,), {})
    failed = failed_with(kind("it went wrong"))
    assert failed["error_type"] == row["error"]
    assert failed["error_code"] == row["code"]
    assert failed["error_category"] == row["category"]
    assert failed["stage"] == row["stage"]


@check
def degraded_search(row, evidence):
    @tracereel.traced_retrieval("semantic_search")
    def search(query):
        tracereel.current_execution().set(degraded=True, degraded_reason="index is away")
        return []

    with EventRecorder() as recorder, tracereel.traced_agent("rag_agent"):
        search("return policy")
    (retrieval,) = recorder.get_events("agent.retrieval.completed")
    assert (retrieval["degraded"], retrieval["status"]) == (True, "success")
    assert recorder.get_events(COMPLETED)


@check
def error_recorded(row, evidence):
    failed = failed_with(RuntimeError("unexpected"))
    assert (failed["error_type"], failed["error_message"]) == ("RuntimeError", "unexpected")
    assert "RuntimeError: unexpected" in failed["stack_trace"]


@check
def error_event(row, evidence):
    (event,) = BatchResultNormalizer().normalize(RuntimeError("unexpected")).events
    stored = to_event_store(event)
    assert (stored["type"], stored["data"]["error"]) == ("error", "unexpected")


@check
def error_raised(row, evidence):
    assert failed_with(RuntimeError("unexpected"))


def outage(evidence):
    """Run a program while the collector is away; return its output and what arrived later."""
    if "outage" not in vars(evidence):
        host, port = evidence.collector.url.removeprefix("http://").split(":")
        proxy = FlakyProxy(host, int(port))
        environ = {**evidence.destination, "TRACEREEL_ENDPOINT": f"http://127.0.0.1:{proxy.port}"}
        spool = {"TRACEREEL_SPOOL_DIR": str(evidence.folder / "outage")}
        try:
            proxy.away = True
            done = evidence.run("outage.py", "trc_outage", **environ, **spool)
            proxy.away = False
            shipped = subprocess.run(
                [sys.executable, "-m", "tracereel", "ship", "--timeout", "20"],
                env={**os.environ, **environ, **spool},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert shipped.returncode == 0, shipped.stderr
        finally:
            proxy.close()
        evidence.outage = json.loads(done.stdout), evidence.replay("trc_outage")
    return evidence.outage


@collector_check
def tools_do_not_wait(row, evidence):
    done, _ = outage(evidence)
    assert done["result"] == "Contoso: order 1042"
    assert done["spooled"] == 3


@collector_check
def persistence_errors_do_not_block(row, evidence):
    done, _ = outage(evidence)
    assert (done["result"], done["dropped"]) == ("Contoso: order 1042", 0)


@collector_check
def retried_persistence(row, evidence):
    _, document = outage(evidence)
    assert [entry["event"] for entry in document["timeline"]] == [
        "agent.execution.started",
        "agent.tool.called",
        "agent.execution.completed",
    ]


# Tenants and providers.


@collector_check
def key_required(row, evidence):
    url = evidence.collector.url
    assert evidence.collector.post_events([new_event()]).status == 401
    assert http("GET", f"{url}/v1/replay/trc_declared").status == 401
    wrong = {"x-api-key": "a-key-that-nothing-knows"}
    assert evidence.collector.post_events([new_event()], headers=wrong).status == 401


@collector_check
def tenants_separate(row, evidence):
    assert evidence.stored_declared
    other = {"x-api-key": KEYS["other"]}
    url = f"{evidence.collector.url}/v1/replay/trc_declared"
    assert http("GET", url, headers=other).status == 404
    claimed = evidence.collector.post_events([new_event(tenant="own")], headers=other)
    assert claimed.status == 403


@collector_check
def user_mismatch(row, evidence):
    """The collector of these tests is configured to refuse."""
    owned = [new_event(session_id="ses_owned", user_id=user) for user in ("ana", "eve", "ana")]
    answer = evidence.collector.post_events(owned, headers=evidence.headers)
    assert answer.status == 200
    assert [each["index"] for each in answer.json()["rejected"]] == [1]
    alone = new_event(session_id="ses_owned", user_id="eve")
    assert evidence.collector.post_events([alone], headers=evidence.headers).status == 403


@check
def max_turns(row, evidence):
    assert canonical_stop_reason("max_tokens", "anthropic") == ("max_tokens", None)
    assert canonical_stop_reason("max_turns") == ("max_tokens", None)


@check
def any_provider(row, evidence):
    message = {"type": "ai", "content": "hello"}
    for provider in ("anthropic", "openai", "azure_openai", "google"):
        (event,) = BatchResultNormalizer(provider=provider).normalize([message]).events
        assert (event.provider, event.content) == (provider, "hello")
