"""SSE agents: events derived from frames, and unchanged behaviour for readers."""

import asyncio
import itertools
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from tracereel import current_execution, traced_pipeline
from tracereel.events import parse_event
from tracereel.integrations.sse import traced_sse, wrap
from tracereel.testing import EventRecorder

STARTED = "agent.execution.started"
DONE = "agent.execution.completed"
FAILED = "agent.execution.failed"
CANCELLED = "agent.execution.cancelled"
TOOL = "agent.tool.called"
STEP = "agent.step.completed"

SOURCE = {"id": 1234, "law": "Estatuto de los Trabajadores", "section": "Art. 48"}


def frame(event, **data):
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


SEARCH = frame("tool_status", tool="search_normativa", args={"query": "permiso nacimiento"})
ARTICLE = frame("tool_status", tool="get_article", args={"article_number": "48"})
TOKENS = [frame("token", text="Desde 2021 "), frame("token", text="son 16 semanas.")]
END = frame("done", threadId="thread_abc", sources=[SOURCE])
ANSWER = [SEARCH, ARTICLE, *TOKENS, END]


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def events(registry):
    with EventRecorder(registry=registry) as recorder:
        yield recorder
    for event in recorder:
        parse_event(event)


def only(events, kind):
    (event,) = events.get_events(kind)
    return event


def test_the_frames_become_tools_rounds_answer_sources_and_thread(events):
    assert (
        list(wrap(iter(ANSWER), "ss-expert", round_limit=6, inputs={"message": "¿Días?"})) == ANSWER
    )

    started, done = only(events, STARTED), only(events, DONE)
    assert started["input_summary"] == "¿Días?"
    assert done["output_summary"] == "Desde 2021 son 16 semanas."
    assert (done["output_type"], done["output_items"]) == ("sse", 2)
    assert (done["sources"], done["source_count"]) == ([SOURCE], 1)
    assert (done["rounds"], done["round_limit"], done["round_limit_reached"]) == (2, 6, False)
    search, article = events.get_events(TOOL)
    assert (search["tool_name"], search["arguments"]) == (
        "search_normativa",
        {"query": "permiso nacimiento"},
    )
    assert (article["arguments"], article["round"]) == ({"article_number": "48"}, 2)
    assert {search["status"], article["status"]} == {"success"}
    assert {search["ended_by"], article["ended_by"]} == {"next_frame"}
    assert search["parent_span_id"] == started["span_id"]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"message": "How long?", "thread_id": "t"}, "How long?"),
        ({"question": "How long?", "topic": "leave", "top": None}, "How long?\ntopic: 'leave'"),
        ({"body": {"message": "How long?", "threadId": "t", "k": 3}}, "How long?\nk: 3"),
        ({"message": ["How", "long?"]}, "message: ['How', 'long?']"),
        ({"message": "x" * 200, "topic": "leave"}, "x" * 200),
        ({"topic": "leave"}, "topic: 'leave'"),
    ],
)
def test_input_summary_shows_the_message_before_other_arguments(events, given, shown):
    list(wrap(iter(ANSWER), "ss-expert", inputs=given))

    assert only(events, STARTED)["input_summary"] == shown


def test_a_long_question_is_cut(events):
    list(wrap(iter(ANSWER), "ss-expert", inputs={"message": "long " * 100, "topic": "leave"}))

    started = only(events, STARTED)
    assert len(started["input_summary"]) <= 200
    assert started["input_summary"].startswith("long long")


def test_input_summary_is_empty_without_content_capture(registry):
    with EventRecorder(registry=registry, capture_content=False) as recorder:
        list(wrap(iter(ANSWER), "ss-expert", inputs={"message": "How long?", "topic": "leave"}))

    assert only(recorder, STARTED)["input_summary"] == ""


def test_a_thread_that_is_known_only_at_the_end_is_the_session_from_there_on(events):
    list(wrap(iter(ANSWER), "ss-expert"))

    assert "session_id" not in only(events, STARTED)
    done = only(events, DONE)
    assert (done["session_id"], done["session_state"]) == ("thread_abc", "new")


def test_requested_thread_is_resumed(events):
    list(wrap(iter(ANSWER), "ss-expert", thread_id="thread_abc"))

    assert only(events, STARTED)["session_id"] == "thread_abc"
    assert only(events, DONE)["session_state"] == "resumed"


def test_different_thread_than_requested_is_a_new_session(events):
    list(wrap(iter(ANSWER), "ss-expert", thread_id="thread_gone"))

    done = only(events, DONE)
    assert (done["session_id"], done["session_state"]) == ("thread_abc", "new")


def test_run_id_and_context_chunks_are_kept(events):
    list(
        wrap(
            iter(
                [
                    frame("run_created", runId="run_7"),
                    frame("token", text="a"),
                    frame("done", contextChunkIds=[3, 5], sources=[]),
                ]
            ),
            "rag",
        )
    )

    done = only(events, DONE)
    assert (done["run_id"], done["context_chunk_ids"], done["source_count"]) == ("run_7", [3, 5], 0)
    assert (done["session_state"], done["frames_ignored"]) == (None, 1)


def test_first_token_and_rate_are_measured(events, registry):
    list(wrap(iter([*TOKENS, TOKENS[0], END]), "ss-expert"))

    done = only(events, DONE)
    assert 0 <= done["time_to_first_token_ms"] <= done["execution_time_ms"]
    assert done["tokens_per_second"] > 0
    labels = {"agent_name": "ss-expert"}
    for name in ("time_to_first_token_seconds", "tokens_per_second"):
        assert registry.get_sample_value(f"tracereel_agent_{name}_count", labels) == 1


def test_an_error_without_done_closes_it_as_failed(events):
    stream = [SEARCH, frame("error", message="the run failed", code="rate_limited")]

    assert list(wrap(iter(stream), "ss-expert")) == stream

    failed = only(events, FAILED)
    assert (failed["error_type"], failed["error_message"], failed["error_code"]) == (
        "SseAgentError",
        "the run failed",
        "rate_limited",
    )
    assert only(events, TOOL)["status"] == "failed"


def test_an_error_closes_it_while_the_connection_stays_open(events):
    def endless():
        yield frame("error", message="no")
        while True:
            yield ": ping\n\n"

    stream = wrap(endless(), "ss-expert")
    next(stream)

    assert only(events, FAILED)["error_message"] == "no"
    stream.close()
    assert len(events.get_events("agent.execution.*")) == 2


def test_reader_that_stops_at_done_does_not_cancel(events):
    for item in wrap(iter([*ANSWER, ": bye\n\n"]), "ss-expert"):
        if "done" in item:
            break

    assert only(events, DONE)["source_count"] == 1
    assert events.get_events(CANCELLED) == []


def test_reader_that_stops_before_done_cancels(events):
    stream = wrap(iter([SEARCH, *TOKENS]), "ss-expert")
    next(stream)
    stream.close()

    assert only(events, CANCELLED)["partial_output"] == {"items": 0, "summary": ""}
    assert only(events, TOOL)["status"] == "cancelled"


def test_a_stream_that_is_cut_is_a_failure(events):
    list(wrap(iter([TOKENS[0]]), "ss-expert"))

    failed = only(events, FAILED)
    assert (failed["error_code"], failed["partial_output"]["summary"]) == (
        "STREAM_CUT",
        "Desde 2021 ",
    )


def test_stream_exception_is_propagated_and_recorded(events):
    def broken():
        yield SEARCH
        raise ConnectionResetError("gone")

    with pytest.raises(ConnectionResetError, match="gone"):
        list(wrap(broken(), "ss-expert"))

    assert only(events, FAILED)["error_type"] == "ConnectionResetError"


def test_six_rounds_are_the_limit_that_is_seen_when_it_is_reached(events):
    list(wrap(iter([*[SEARCH] * 6, END]), "ss-expert", round_limit=6))
    list(wrap(iter([*[SEARCH] * 7, END]), "ss-expert", round_limit=6))

    six, seven = events.get_events(DONE)
    assert (six["rounds"], six["round_limit_reached"]) == (6, True)
    assert "end_code" not in six
    assert (seven["rounds"], seven["round_limit"], seven["round_limit_reached"]) == (7, 6, True)
    assert (six["round_limit_reached_at"], seven["round_limit_reached_at"]) == (6, 6)
    assert seven["end_code"] == "ITERATION_LIMIT_REACHED"


def test_tools_with_end_frames_may_run_concurrently_in_one_round(events):
    def status(tool, call, **more):
        return frame("tool_status", tool=tool, id=call, **more)

    stream = [
        status("search", "c1", status="running", args={"q": "a"}),
        status("search", "c2", status="running", args={"q": "b"}),
        status("search", "c1", status="running"),
        status("search", "c2", status="failed", error="no index"),
        status("search", "c1", status="completed", result=["x"]),
        END,
    ]
    list(wrap(iter(stream), "ss-expert", round_limit=6))

    second, first = events.get_events(TOOL)
    assert (second["tool_call_id"], second["status"], second["error_message"]) == (
        "c2",
        "failed",
        "no index",
    )
    assert (first["tool_call_id"], first["result"], first["ended_by"]) == ("c1", ["x"], "own_frame")
    assert only(events, DONE)["rounds"] == 1


def test_a_stream_that_is_opened_again_after_the_tools_is_one_execution(events):
    with traced_sse("ss-expert", round_limit=6, rounds="streams", thread_id="thread_abc") as run:
        first = list(wrap(iter([SEARCH, ARTICLE])))
        second = list(wrap(iter([SEARCH])))
        for item in wrap(iter([*TOKENS, END, ": bye\n\n"])):
            if "done" in item:
                break
        assert current_execution() is run

    assert (first, second) == ([SEARCH, ARTICLE], [SEARCH])
    done = only(events, DONE)
    assert (done["streams"], done["rounds"], done["tool_calls"]) == (3, 2, 3)
    assert done["output_summary"] == "Desde 2021 son 16 semanas."
    steps = events.get_events(STEP)
    assert [(step["stream_number"], step["status"]) for step in steps] == [
        (1, "success"),
        (2, "success"),
        (3, "success"),
    ]
    assert {event["execution_id"] for event in events} == {done["execution_id"]}


def test_an_endpoint_is_decorated_and_its_own_code_runs_inside(events):
    seen = []

    @traced_sse("ss-expert", tools=False)
    def ask(message, threadId=None):  # noqa: N803
        seen.append(current_execution().name)
        yield SEARCH
        yield END

    assert list(ask("¿Días?", threadId="thread_abc")) == [SEARCH, END]

    assert seen == ["ss-expert"]
    assert only(events, STARTED)["session_id"] == "thread_abc"
    assert events.get_events(TOOL) == []


@pytest.mark.parametrize("way", ["wrap", "decorator"])
def test_async_streams_are_read_the_same_way(way, events):
    async def endpoint(message="", thread_id=None):
        for item in ANSWER:
            yield item

    async def read():
        stream = (
            wrap(endpoint(), "ss-expert")
            if way == "wrap"
            else traced_sse("ss-expert")(endpoint)("¿Días?")
        )
        return [item async for item in stream]

    assert asyncio.run(read()) == ANSWER
    assert only(events, DONE)["session_id"] == "thread_abc"
    assert len(events.get_events(TOOL)) == 2


def test_streams_that_are_read_in_turn_do_not_mix(events):
    first = wrap(iter(ANSWER), "first")
    second = wrap(iter([TOKENS[0], frame("done", threadId="thread_2")]), "second")
    for _ in range(2):
        next(first)
        assert current_execution().name == ""
        next(second)
    list(first)
    list(second)

    sessions = {done["agent_name"]: done["session_id"] for done in events.get_events(DONE)}
    assert sessions == {"first": "thread_abc", "second": "thread_2"}
    assert {tool["agent_name"] for tool in events.get_events(TOOL)} == {"first"}


def test_a_generator_keeps_what_is_sent_to_it_and_what_it_returns(events):
    def talking():
        told = yield SEARCH
        yield END
        return told

    stream = wrap(talking(), "ss-expert")
    next(stream)
    stream.send("hello")
    with pytest.raises(StopIteration) as stop:
        next(stream)

    assert stop.value.value == "hello"


def test_an_async_stream_that_is_left_is_closed_and_cancelled(events):
    closed = []

    async def endpoint():
        try:
            for item in ANSWER:
                yield item
        finally:
            closed.append(True)

    async def leave():
        stream = wrap(endpoint(), "ss-expert")
        await anext(stream)
        await stream.aclose()

    asyncio.run(leave())

    assert closed == [True]
    assert only(events, CANCELLED)["agent_name"] == "ss-expert"


def test_model_and_tokens_of_the_done_frame_are_recorded(events):
    usage = {"prompt_tokens": 900, "completion_tokens": 40}
    list(wrap(iter([TOKENS[0], frame("done", model="gpt-5.2", usage=usage)]), "ss-expert"))

    done = only(events, DONE)
    assert (done["llm_model"], done["llm_prompt_tokens"], done["llm_completion_tokens"]) == (
        "gpt-5.2",
        900,
        40,
    )


def test_inside_a_pipeline_it_is_one_of_its_agents(events):
    with traced_pipeline("chat"):
        list(wrap(iter(ANSWER), "ss-expert"))

    done = only(events, "agent.pipeline.completed")
    assert (done["status"], done["agents_succeeded"]) == ("success", 1)


@pytest.mark.parametrize("data", ["", "no json", "[1]", "null", "7"])
@pytest.mark.parametrize("name", ["tool_status", "token", "done", "error"])
def test_malformed_frames_are_passed_on_and_never_an_error(name, data, events):
    stream = [f"event: {name}\ndata: {data}\n\n", END]

    assert list(wrap(iter(stream), "ss-expert")) == stream
    assert len(events.get_events("agent.execution.*")) == 2


def test_other_names_of_frames_are_translated(events):
    stream = [frame("delta", text="a"), frame("finished")]
    list(wrap(iter(stream), "x", names={"delta": "token", "finished": "done"}))

    assert only(events, DONE)["output_summary"] == "a"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"names": {"a": "b"}}, ValueError, "frames are read as tool_status, token, done, error"),
        ({"rounds": "days"}, ValueError, "counted by calls or streams; not by 'days'"),
        ({"colour": 1}, TypeError, "has no option colour; it takes"),
    ],
)
def test_invalid_sse_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        wrap(iter(()), "x", **options)


def test_non_stream_is_refused():
    with pytest.raises(TypeError, match="got int"):
        wrap(7, "x")


def test_without_content_no_sources_and_no_text_are_recorded():
    with EventRecorder(capture_content=False) as events:
        list(wrap(iter(ANSWER), "ss-expert"))

    done = only(events, DONE)
    assert (done["source_count"], done["output_summary"]) == (1, "")
    assert "sources" not in done


def test_switched_off_the_stream_passes(monkeypatch):
    monkeypatch.setenv("TRACEREEL_ENABLED", "0")

    assert list(wrap(iter(ANSWER), "ss-expert")) == ANSWER


@settings(max_examples=25)
@given(st.lists(st.integers(0, 10_000), max_size=12))
def test_any_split_of_the_bytes_is_recorded_the_same(cuts):
    body = "".join(ANSWER).encode()
    places = sorted({cut % len(body) for cut in cuts})
    bounds = [0, *places, len(body)]
    chunks = [body[a:b] for a, b in itertools.pairwise(bounds) if b > a]

    with EventRecorder() as events:
        assert list(wrap(iter(chunks), "ss-expert")) == chunks

    done = only(events, DONE)
    assert done["output_summary"] == "Desde 2021 son 16 semanas."
    assert (done["rounds"], done["session_id"], len(events.get_events(TOOL))) == (
        2,
        "thread_abc",
        2,
    )


PAGE = (Path(__file__).parents[3] / "docs" / "sdk" / "sse.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_the_snippets_of_the_page_run(number, events):
    names = {"__name__": "snippet"}
    exec(compile(SNIPPETS[number], f"sse.md:{number}", "exec", dont_inherit=True), names)
    if "ask" in names:

        async def read():
            return [frame async for frame in names["ask"]("How long?")]

        asyncio.run(read())

    assert only(events, DONE)["session_id"] == "thread_1"
