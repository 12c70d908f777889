"""Checks of agents that answer by Server-Sent Events."""

import importlib.util
import json
import os
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

from tests.seeds.registry import check, collector_check
from tests.support.collector import http
from tracereel.demo import questions
from tracereel.integrations.sse import wrap
from tracereel.testing import EventRecorder

EXAMPLE = Path(__file__).parents[3] / "examples" / "sse_questions.py"
COMPLETED = "agent.execution.completed"
FAILED = "agent.execution.failed"
SOURCE = {"id": 1234, "law": "Workers' Statute", "section": "Art. 48", "collection": "normativa"}


def frame(event, **data):
    return f"event: {event}\ndata: {json.dumps(data)}\n\n"


def search(number=0):
    return frame("tool_status", tool="search_normativa", args={"query": f"leave {number}"})


ARTICLE = frame("tool_status", tool="get_article", args={"article_number": "48", "law_name": "WS"})
TOKENS = (frame("token", text="Sixteen "), frame("token", text="weeks."))
DONE = frame("done", threadId="thread_abc", sources=[SOURCE])
ANSWER = [search(), ARTICLE, *TOKENS, DONE]
BROKEN = [search(), frame("error", message="the run failed")]


def recorded(frames, **options):
    with EventRecorder() as recorder:
        passed = list(wrap(iter(frames), "ss-expert", inputs={"message": "How long?"}, **options))
    assert passed == frames
    return recorder


def closing(recorder, kind=COMPLETED):
    (event,) = recorder.get_events(kind)
    return event


@check
def sse_frame(row, evidence):
    recorder = recorded(BROKEN if row["frame"] == "error" else ANSWER, round_limit=6)
    if row["frame"] == "tool_status":
        calls = recorder.get_events("agent.tool.called")
        assert [call["tool_name"] for call in calls] == ["search_normativa", "get_article"]
    elif row["frame"] == "token":
        assert closing(recorder)["output_summary"] == "Sixteen weeks."
    elif row["frame"] == "done":
        done = closing(recorder)
        assert (done["session_id"], done["sources"]) == ("thread_abc", [SOURCE])
    else:
        assert closing(recorder, FAILED)["error_message"] == "the run failed"


@check
def sse_unchanged(row, evidence):
    odd = [": comment\n\n", "data: not json\n\n", frame("unknown", x=1), *ANSWER]
    recorded(odd)
    recorded([each.encode() for each in odd])


@check
def sse_tool_events(row, evidence):
    calls = recorded(ANSWER).get_events("agent.tool.called")
    assert [call["arguments"] for call in calls] == [
        {"query": "leave 0"},
        {"article_number": "48", "law_name": "WS"},
    ]


@check
def sse_sources(row, evidence):
    done = closing(recorded(ANSWER))
    assert (done["sources"], done["source_count"]) == ([SOURCE], 1)


@check
def sse_context_chunks(row, evidence):
    done = frame("done", contextChunkIds=[1234, 48], sources=[SOURCE])
    assert closing(recorded([*TOKENS, done]))["context_chunk_ids"] == [1234, 48]


@check
def sse_error_fields(row, evidence):
    failed = closing(recorded(BROKEN), FAILED)
    assert all(failed[name] for name in ("error_code", "error_category", "stage"))


@check
def sse_cut(row, evidence):
    assert closing(recorded(ANSWER[:-1]), FAILED)["error_code"] == "STREAM_CUT"


@check
def sse_first_token(row, evidence):
    assert closing(recorded(ANSWER))["time_to_first_token_ms"] >= 0


@check
def sse_tool_latency(row, evidence):
    calls = recorded(ANSWER).get_events("agent.tool.called")
    assert all(call["duration_ms"] >= 0 for call in calls)
    assert {call["ended_by"] for call in calls} == {"next_frame"}
    assert [call["round"] for call in calls] == [1, 2]


@check
def sse_new_thread(row, evidence):
    done = closing(recorded(ANSWER))
    assert (done["session_id"], done["session_state"]) == ("thread_abc", "new")


@check
def sse_resumed_thread(row, evidence):
    recorder = recorded(ANSWER, thread_id="thread_abc")
    assert closing(recorder)["session_state"] == "resumed"
    assert {event["session_id"] for event in recorder} == {"thread_abc"}


@collector_check
def sse_thread_on_every_event(row, evidence):
    recorder = recorded([*ANSWER[:-1], frame("done", threadId="thread_first", sources=[])])
    evidence.store([{**event, "emitter_id": "emt_first_turn"} for event in recorder])
    timeline = evidence.replay(recorder.events[0]["trace_id"])["timeline"]
    assert {entry["details"].get("session_id") for entry in timeline} == {"thread_first"}


@collector_check
def sse_session_of_two_turns(row, evidence):
    done = frame("done", threadId="thread_turns", sources=[])
    turns = [recorded([*TOKENS, done]), recorded([*TOKENS, done], thread_id="thread_turns")]
    for number, turn in enumerate(turns):
        evidence.store([{**event, "emitter_id": f"emt_turn_{number}"} for event in turn])
    found = evidence.client.session("thread_turns").turns
    assert [turn.trace_id for turn in found] == [turn.events[0]["trace_id"] for turn in turns]


@check
def sse_round_limit(row, evidence):
    done = closing(recorded([search(n) for n in range(6)] + [*TOKENS, DONE], round_limit=6))
    assert (done["rounds"], done["round_limit"], done["round_limit_reached"]) == (6, 6, True)
    fewer = closing(recorded([search(n) for n in range(5)] + [*TOKENS, DONE], round_limit=6))
    assert (fewer["rounds"], fewer["round_limit_reached"]) == (5, False)


@collector_check
def sse_rounds_beyond_limit(row, evidence):
    done = frame("done", threadId="thread_rounds", sources=[])
    recorder = recorded(
        [search(n) for n in range(7)] + [*TOKENS, done], round_limit=6, thread_id="thread_rounds"
    )
    closed = closing(recorder)
    assert (closed["round_limit_reached"], closed["rounds"]) == (True, 7)
    assert closed["end_code"] == "ITERATION_LIMIT_REACHED"
    assert (closed["round_limit"], closed["round_limit_reached_at"]) == (6, 6)
    evidence.store([{**event, "emitter_id": "emt_rounds"} for event in recorder])
    (turn,) = evidence.client.session("thread_rounds").turns
    assert len(turn.rounds) == 7


# The example: an endpoint with an agent.


def _example():
    name = "tests_seeds_sse_questions"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, EXAMPLE)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


class Endpoint:
    """The example's endpoint, served in this process."""

    def __enter__(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _example().Endpoint)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def post(self, message, thread_id=None, *, key=True):
        url = f"http://127.0.0.1:{self.server.server_port}"
        body = {"message": message}
        if thread_id is not None:
            body["threadId"] = thread_id
        headers = {"Content-Type": "application/json"}
        if key:
            headers["x-api-key"] = os.environ["QUESTIONS_API_KEY"]
        return http("POST", url, json.dumps(body).encode(), headers)


def _frames(answer):
    found = []
    for text in answer.body.decode().strip().split("\n\n"):
        name, data = text.removeprefix("event: ").split("\ndata: ")
        found.append((name, json.loads(data)))
    return found


@check
def sse_request(row, evidence):
    first, second = (question.text for question in questions.CONVERSATIONS[0])
    with EventRecorder(), Endpoint() as endpoint:
        opened = endpoint.post(first)
        assert opened.status == 200
        name, done = _frames(opened)[-1]
        assert (name, bool(done["threadId"])) == ("done", True)
        resumed = endpoint.post(second, done["threadId"])
        assert _frames(resumed)[-1][1]["threadId"] == done["threadId"]


@check
def sse_api_key(row, evidence):
    question = questions.CONVERSATIONS[0][0].text
    with EventRecorder(), Endpoint() as endpoint:
        assert endpoint.post(question, key=False).status == 401
        assert endpoint.post(question).status == 200


@check
def sse_one_agent(row, evidence):
    """Threads of one request are known to the next, so the same agent answered both."""
    first = questions.CONVERSATIONS[0][0].text
    with EventRecorder() as recorder, Endpoint() as endpoint:
        _, done = _frames(endpoint.post(first))[-1]
        _, again = _frames(endpoint.post(first, done["threadId"]))[-1]
    assert done["threadId"] == again["threadId"]
    started = recorder.get_events("agent.execution.started")
    assert len({event["agent_name"] for event in started}) == 1


def _tool_events():
    """Return the events of tools in all conversations of the example."""
    agent = questions.QuestionAgent(sleep=lambda _: None)
    with EventRecorder() as recorder, questions.on_duty(agent):
        for conversation in questions.CONVERSATIONS:
            thread = None
            for question in conversation:
                frames = list(questions.ask(question.text, thread_id=thread))
                name, data = frames[-1].removeprefix("event: ").strip().split("\ndata: ")
                thread = json.loads(data)["threadId"] if name == "done" else None
    return [
        event
        for event in recorder
        if event["event_type"] in ("agent.tool.called", "agent.retrieval.completed")
    ]


PARAMETERS = {
    "search_normativa": {"query"},
    "search_sentencias": {"query"},
    "get_article": {"article_number", "law_name"},
    "get_related_chunks": {"chunk_id"},
}
"""Tool → its required parameters; searches may also have `top_k`."""


@check
def sse_tools(row, evidence):
    seen = {}
    for event in _tool_events():
        name = event.get("tool_name") or event.get("retrieval_name")
        arguments = event.get("arguments") or {}
        seen.setdefault(name, set()).update(arguments)
    assert seen.keys() == PARAMETERS.keys()
    for name, required in PARAMETERS.items():
        assert required <= seen[name]
        assert seen[name] - required <= {"top_k"}


@check
def sse_retrievals(row, evidence):
    searches = [
        event
        for event in _tool_events()
        if (event.get("tool_name") or event.get("retrieval_name") or "").startswith("search_")
    ]
    assert searches
    assert any("top_k" in json.dumps(event) for event in searches)
    assert all("score" in json.dumps(event) for event in searches if event.get("result_count"))
    assert any('"score"' in json.dumps(event) for event in searches)
