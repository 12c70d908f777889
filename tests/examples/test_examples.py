"""The examples run offline, respect their limits, and are recorded completely."""

import json
import os
import re
import runpy
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from langgraph.errors import GraphRecursionError

from tests.sdk.cli.answering_server import AnsweringServer
from tracereel.cli import demo as command
from tracereel.demo import law_library, orchestrator, questions
from tracereel.demo.examples import DEFAULT, EXAMPLES
from tracereel.demo.orchestrator_script import REQUESTS, ScriptedChatModel, models_for
from tracereel.demo.run_orchestrator import run_orchestrator
from tracereel.demo.run_questions import run_questions
from tracereel.events import parse_event
from tracereel.testing import EventRecorder

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
PAGE = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
COMPLETED = "agent.execution.completed"
DECISION = "agent.decision.recorded"
FAILED = "agent.execution.failed"


def no_nap(_seconds):
    """Make scripted models instantaneous."""


def environment(url, folder):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TRACEREEL_", "OTEL_"))}
    return {
        **env,
        "PYTHONPATH": str(ROOT / "sdk"),
        "PYTHONIOENCODING": "utf-8",
        "TRACEREEL_ENDPOINT": url,
        "TRACEREEL_SPOOL_DIR": str(folder),
        "TRACEREEL_RAISE_INTERNAL_ERRORS": "1",
    }


def run(words, url, folder):
    return subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", *words],
        env=environment(url, folder),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def desk():
    """Send every request to the orchestrator; return the reports and the events."""
    with EventRecorder() as events:
        reports = list(run_orchestrator(runs=len(REQUESTS), interval=0, seed=1, sleep=no_nap))
    return reports, events


@pytest.fixture(scope="module")
def asked():
    """Send requests for every conversation; return the reports and the events."""
    with EventRecorder() as events:
        reports = list(run_questions(runs=12, interval=0, seed=1, sleep=no_nap))
    return reports, events


def of(events, kind, trace_id):
    return [event for event in events.get_events(kind) if event["trace_id"] == trace_id]


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_delivers_the_documented_events(script, tmp_path):
    with AnsweringServer() as server:
        done = run([str(ROOT / "examples" / script)], server.url, tmp_path)
        events = server.events

    assert (done.returncode, done.stderr) == (0, "")
    told = set(re.findall(r"[0-9a-f]{32}", done.stdout))
    assert told
    assert told == {event["trace_id"] for event in events}
    for event in events:
        parse_event(event)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_command_shows_each_example(name, tmp_path):
    words = ["-m", "tracereel", "demo", "--example", name, "--runs", "1", "--seed", "1"]
    with AnsweringServer() as server:
        done = run([*words, "--endpoint", server.url], server.url, tmp_path)

        assert (done.returncode, done.stderr) == (0, "")
        assert {event["trace_id"] for event in server.events} == {done.stdout.split("\n")[1][:32]}


def test_base_install_names_the_package_for_langgraph(tmp_path):
    script = (
        "import sys; sys.modules['langgraph'] = sys.modules['langchain_core'] = None;"
        "from tracereel.cli import main; sys.exit(main(['demo', '--example', sys.argv[1], '--runs', '1']))"
    )
    with AnsweringServer() as server:
        missing = run(["-c", script, "orchestrator"], server.url, tmp_path)
        others = [
            run(["-c", script, name], server.url, tmp_path)
            for name in EXAMPLES
            if name != "orchestrator"
        ]

    assert missing.returncode == 2
    assert "install it with: pip install 'tracereel[langgraph]'" in missing.stderr
    assert [done.returncode for done in others] == [0, 0]


def test_the_command_and_the_page_know_every_example():
    assert (command.EXAMPLES, DEFAULT) == (EXAMPLES, next(iter(EXAMPLES)))
    assert [name for name in EXAMPLES if f"`tracereel demo --example {name}`" not in PAGE] == []
    assert [name for name in SCRIPTS if f"examples/{name}" not in PAGE] == []


def test_examples_page_documents_the_actual_limits():
    assert f"{orchestrator.MAX_ITERATIONS} rounds" in PAGE
    assert f"{orchestrator.RECURSION_LIMIT} steps" in PAGE
    assert f"{questions.ROUND_LIMIT} rounds" in PAGE
    assert orchestrator.TIME_LIMIT_SECONDS == questions.TIME_LIMIT_SECONDS == 300
    assert "5 minutes" in PAGE


class TestOrchestrator:
    def test_every_router_rule_decides_once_and_is_recorded(self, desk):
        reports, events = desk
        decisions = [of(events, DECISION, report.trace_id)[0] for report in reports]

        assert [each["output_data"]["rule"] for each in decisions] == [
            *("slash_command", "keyword", "attachment", "model", "model", "slash_command"),
        ]
        assert [each["chosen"] for each in decisions] == [request.agent for request in REQUESTS]
        for each in decisions:
            assert (each["decision_type"], each["candidates"]) == (
                "routing",
                list(orchestrator.AGENTS),
            )
        assert [each["output_data"]["matched"] for each in decisions[:3]] == [
            *("/orders", "invoice", "returns.pdf"),
        ]

    def test_commands_win_over_words_and_words_over_attachments(self):
        def route(text, attachments=()):
            found = orchestrator.route(text, attachments=list(attachments), ask=lambda _: "?")
            return found.chosen, found.rule

        assert route("/docs the order", ["a.pdf"]) == (orchestrator.DOCUMENTS, "slash_command")
        assert route("the order", ["a.pdf"]) == (orchestrator.ORDERS, "keyword")
        assert route("this", ["a.pdf"]) == (orchestrator.DOCUMENTS, "attachment")

    def test_a_specialist_reasons_and_acts_in_turn_and_its_calls_are_its_own(self, desk):
        reports, events = desk
        trace_id = reports[0].trace_id

        specialist, whole = of(events, COMPLETED, trace_id)
        assert (specialist["agent_name"], specialist["rounds"]) == (orchestrator.ORDERS, 3)
        assert whole["agent_name"] == "orchestrator"
        assert (
            whole["session_id"]
            == specialist["session_id"]
            != of(events, COMPLETED, reports[1].trace_id)[0]["session_id"]
        )
        tools = of(events, "agent.tool.called", trace_id)
        assert [each["tool_name"] for each in tools] == ["find_orders", "get_invoice"]
        assert {each["agent_name"] for each in tools} == {orchestrator.ORDERS}
        steps = [each["step_name"] for each in of(events, "agent.step.completed", trace_id)]
        assert steps == ["router", *["reason", "act"] * 2, "reason", orchestrator.ORDERS]
        assert specialist["llm_tokens_used"] > 0

    def test_ten_rounds_are_the_limit(self, desk):
        reports, events = desk

        specialist = of(events, COMPLETED, reports[-1].trace_id)[0]
        assert reports[-1].outcome == "limit reached"
        assert (specialist["rounds"], specialist["round_limit"]) == (10, 10)
        assert specialist["end_code"] == "ITERATION_LIMIT_REACHED"
        assert len(of(events, "agent.llm.called", reports[-1].trace_id)) == 10

    def test_five_minutes_are_the_limit_of_all_steps_together(self, recorded_events):
        now = iter(range(0, 10_000, 140))
        request = REQUESTS[0]
        models = models_for(request.prompt, no_nap)
        desk = orchestrator.Orchestrator(models, clock=lambda: next(now))

        with orchestrator.on_duty(desk), pytest.raises(TimeoutError, match="five minutes are over"):
            orchestrator.answer(request.prompt, attachments=[], session_id="s")

        failed = recorded_events.get_events("agent.execution.failed")
        assert [each["agent_name"] for each in failed] == [request.agent, "orchestrator"]
        assert {each["error_type"] for each in failed} == {"TimeoutError"}
        # A model and a tool were called before the limit: no single step was late.
        assert len(recorded_events.get_events("agent.llm.called")) == 1
        assert len(recorded_events.get_events("agent.tool.called")) == 1

    def test_fifty_steps_are_the_limit(self, recorded_events, monkeypatch):
        monkeypatch.setattr(orchestrator, "MAX_ITERATIONS", 1_000)
        steps = [("get_invoice", {"order": str(number)}) for number in range(100)]
        model = ScriptedChatModel(steps=steps, nap=no_nap)
        desk = orchestrator.Orchestrator({orchestrator.ORDERS: model})

        with orchestrator.on_duty(desk), pytest.raises(GraphRecursionError, match="limit of 50"):
            orchestrator.answer("/orders all of them", attachments=[], session_id="s")

        failed = recorded_events.get_events("agent.execution.failed")
        assert [each["error_type"] for each in failed] == ["GraphRecursionError"] * 2
        steps = recorded_events.get_events("agent.step.completed")
        assert sum(each["step_name"] in ("reason", "act") for each in steps) == 50


class TestQuestions:
    def test_a_follow_up_is_answered_in_the_thread_of_the_first_question(self, asked):
        reports, events = asked
        first, second = (of(events, COMPLETED, report.trace_id)[0] for report in reports[:2])

        assert first["session_id"] == second["session_id"] != ""
        assert (first["session_state"], second["session_state"]) == ("new", "resumed")
        assert [source["id"] for source in first["sources"]] == [48, 177]
        assert [
            each["tool_name"] for each in of(events, "agent.tool.called", reports[0].trace_id)
        ] == [
            *("search_normativa", "get_article", "get_related_chunks"),
        ]

    def test_every_tool_has_an_event_with_scores(self, asked):
        _, events = asked
        found = {
            (each["retrieval_name"], each["collection"]): each
            for each in events.get_events("agent.retrieval.completed")
            if each["result_count"]
        }

        assert sorted(name for name, _ in found) == sorted(law_library.TOOLS)
        for each in found.values():
            assert all(0 < document["score"] <= 1 for document in each["documents"])
        search = found["search_normativa", "normativa"]
        assert isinstance(search["query"], str)
        assert {each["error_category"] for each in events.get_events(FAILED)} == {"transient"}

    @pytest.mark.parametrize(
        ("tool", "arguments", "ids"),
        [
            ("search_normativa", {"query": "parental leave", "top_k": 1}, [48]),
            ("search_normativa", {"query": "parental leave", "top_k": 99}, [48, 177]),
            ("search_sentencias", {"query": "leave"}, [900]),
            ("get_article", {"article_number": "177", "law_name": "social security act"}, [177]),
            ("get_article", {"article_number": "9", "law_name": "Workers' Statute"}, []),
            ("get_related_chunks", {"chunk_id": 318}, [177]),
        ],
    )
    def test_the_four_tools(self, tool, arguments, ids):
        found = law_library.LawLibrary(no_nap).call(tool, arguments)

        assert [each["id"] for each in found] == ids

    def test_a_process_has_one_agent(self):
        manager = questions.AgentManager()
        with ThreadPoolExecutor(8) as pool:
            agents = set(pool.map(lambda _: manager.agent(), range(32)))

        assert len(agents) == 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "getpid", lambda: -1)  # as in a forked child
            assert manager.agent() not in agents

    @pytest.mark.parametrize(("key", "status"), [(None, 401), ("wrong", 401), ("right", 200)])
    def test_the_endpoint_demands_its_key(self, key, status, monkeypatch):
        monkeypatch.setenv("QUESTIONS_API_KEY", "right")
        endpoint = runpy.run_path(str(ROOT / "examples" / "sse_questions.py"))["Endpoint"]
        body = {"message": questions.CONVERSATIONS[0][0].text}
        server = ThreadingHTTPServer(("127.0.0.1", 0), endpoint)
        serving = threading.Thread(target=server.serve_forever, args=(0.02,))
        serving.start()
        try:
            headers = {} if key is None else {"x-api-key": key}
            url = f"http://127.0.0.1:{server.server_port}"
            answer = httpx.post(url, json=body, headers=headers, timeout=60)
        finally:
            server.shutdown()
            server.server_close()
            serving.join()

        assert answer.status_code == status
        assert ("event: done" in answer.text) == (status == 200)

    def test_six_rounds_are_the_limit(self, asked):
        _, events = asked
        limited = [each for each in events.get_events(COMPLETED) if each["round_limit_reached"]]

        assert limited
        assert {each["rounds"] for each in limited} == {questions.ROUND_LIMIT}

    def test_a_run_that_fails_is_a_failure_with_its_code(self, asked):
        reports, events = asked

        failed = events.get_events("agent.execution.failed")
        assert len(failed) == sum(report.failed for report in reports) > 0
        assert {each["error_code"] for each in failed} == {"RUN_FAILED"}

    def test_five_minutes_are_the_limit(self, recorded_events):
        now = iter([0.0, 1.0, 301.0])
        agent = questions.QuestionAgent(sleep=no_nap, clock=lambda: next(now))

        with questions.on_duty(agent):
            frames = list(questions.ask(questions.CONVERSATIONS[0][0].text))

        assert "five minutes are over" in frames[-1]
        (failed,) = recorded_events.get_events("agent.execution.failed")
        assert failed["error_code"] == "TIME_LIMIT"

    def test_a_thread_that_is_not_there_is_an_error(self, recorded_events):
        with questions.on_duty(questions.QuestionAgent(sleep=no_nap)):
            (frame,) = questions.ask(questions.CONVERSATIONS[0][0].text, thread_id="thread_9")

        assert "there is no thread thread_9" in frame
        (failed,) = recorded_events.get_events("agent.execution.failed")
        assert failed["error_code"] == "NO_SUCH_THREAD"

    def test_thread_keeps_its_history(self):
        agent = questions.QuestionAgent(sleep=no_nap)
        first, second = questions.CONVERSATIONS[0]
        with questions.on_duty(agent):
            ended = list(questions.ask(first.text))[-1]
            thread_id = json.loads(ended.partition("data: ")[2])["threadId"]
            list(questions.ask(second.text, thread_id=thread_id))

        assert agent.history(thread_id) == [first.text, second.text]
