"""The demo pipeline: deterministic, realistic, and recorded completely."""

import json
import os
import random
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.cli.answering_server import AnsweringServer
from tracereel.demo.scenarios import SCENARIOS
from tracereel.demo.script_writer import SILENT, write_plan
from tracereel.demo.scripted_model import LLMTimeoutError, ScriptedModel
from tracereel.events import parse_event

TODAY = date(2026, 1, 22)
REPOSITORY = Path(__file__).parents[2]

# The SDK records for a whole process, so each recording has its own.
RECORDING = """
import sys, tracereel
from datetime import date
from tracereel.cli.stopping import Stopped
from tracereel.demo.run import run_demo

stop_at, naps = int(sys.argv[3]), 0

def sleep(seconds):
    global naps
    naps += 1
    if naps == stop_at:
        raise Stopped(2)

tracereel.configure(endpoint=sys.argv[1], spool_dir=sys.argv[2], service="demo-test")
reports = run_demo(runs=40, interval=0, seed=5, sleep=sleep, today=date(2026, 1, 22))
try:
    for report in reports:
        print(report.trace_id, report.outcome)
except Stopped:
    print("stopped")
assert tracereel.flush(30).spooled == 0
"""


def record(server: AnsweringServer, spool: Path, *, stop_at: int = 0) -> list[str]:
    """Run the pipeline against a server; return its report lines."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TRACEREEL_", "OTEL_"))}
    paths = [str(REPOSITORY / "sdk"), env.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-c", RECORDING, server.url, str(spool), str(stop_at)],
        env={
            **env,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYTHONIOENCODING": "utf-8",
            "TRACEREEL_RAISE_INTERNAL_ERRORS": "1",
        },
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the reports of forty runs and the events as received by the collector."""
    with AnsweringServer() as server:
        return record(server, tmp_path_factory.mktemp("spool")), server.events


def of_type(events: list[dict[str, Any]], event_type: str) -> list[dict[str, Any]]:
    return [event for event in events if event["event_type"] == event_type]


class TestPlan:
    def test_the_same_seed_gives_the_same_runs(self):
        first, second = (
            [write_plan(rng, today=TODAY) for _ in range(30)]
            for rng in (random.Random(5), random.Random(5))
        )

        assert first == second

    def test_different_seeds_give_different_runs(self):
        first, second = (
            [write_plan(rng, today=TODAY).scenario for _ in range(30)]
            for rng in (random.Random(5), random.Random(6))
        )

        assert first != second

    @pytest.mark.parametrize("offset", range(14))
    def test_weekday_phrases_resolve_to_the_next_such_day(self, offset):
        today = TODAY + timedelta(days=offset)
        for scenario in SCENARIOS:
            day = scenario.day(today)
            for word, weekday in (("Tuesday", 1), ("viernes", 4)):
                if word in scenario.date_phrase:
                    assert day.weekday() == weekday
                    assert today < day <= today + timedelta(days=7)

    @pytest.mark.parametrize("seed", range(20))
    def test_calm_run_has_no_failures(self, seed):
        plan = write_plan(random.Random(seed), today=TODAY, story="calm")

        assert (plan.script.troubles, plan.slot_is_taken) == ({}, False)

    def test_most_failures_have_a_fallback_so_that_the_goals_are_met(self):
        """The goal is that 95 % of runs succeed; the demo's board is green."""
        rng = random.Random(7)
        plans = [write_plan(rng, today=TODAY) for _ in range(5000)]
        troubled = [plan.script.troubles for plan in plans if plan.script.troubles]
        for_good = [each for each in troubled if SILENT in each.values()]
        failing = [each for each in for_good if each.get("place_resolution") != SILENT]
        assert len(troubled) > len(for_good) > len(failing) > 0
        assert len(failing) / len(plans) < 0.02

    def test_confidences_are_between_zero_and_one(self):
        rng = random.Random(1)
        for _ in range(200):
            answers = write_plan(rng, today=TODAY).script.answers.values()
            assert all(0.0 <= confidence <= 1.0 for _, confidence, _ in answers)


class TestScriptedModel:
    def test_scripted_model_reports_usage_and_cost(self):
        plan = write_plan(random.Random(1), today=TODAY, story="calm")
        naps: list[float] = []
        answer = ScriptedModel(plan.script, random.Random(1), naps.append).complete(
            "entity_extraction", "Extract.", "cita"
        )

        assert answer.total_tokens == answer.prompt_tokens + answer.completion_tokens
        assert 0 < answer.cost_usd < 0.01
        assert naps == [answer.seconds]

    def test_scripted_model_times_out_at_the_scripted_step(self):
        plan = write_plan(random.Random(1), today=TODAY, story="calm")
        script = type(plan.script)(plan.script.answers, troubles={"rule_check": (None,)})
        model = ScriptedModel(script, random.Random(1), lambda _: None)

        with pytest.raises(LLMTimeoutError, match="no answer from qwen"):
            model.complete("rule_check", "Check.", "2026-01-23 10:00")


class TestRecording:
    def test_every_event_keeps_the_contract(self, recorded):
        _, events = recorded

        for event in events:
            parse_event(event)

    def test_every_kind_of_ending_occurs(self, recorded):
        reports, events = recorded

        outcomes = {line.split(" ", 1)[1].split(":")[0] for line in reports}
        assert outcomes == {
            "appointment_created",
            "conflict_detected",
            "outside_opening_hours",
            "failed",
        }
        assert {event["status"] for event in of_type(events, "agent.pipeline.completed")} == {
            "success",
            "partial_success",
            "failed",
        }

    def test_the_first_run_has_all_five_agents_with_usage_and_decisions(self, recorded):
        reports, events = recorded
        run = [event for event in events if event["trace_id"] == reports[0].split()[0]]

        assert reports[0].endswith(" appointment_created")
        completed = of_type(run, "agent.execution.completed")
        started = of_type(run, "agent.pipeline.started")[0]
        assert started["agent_sequence"] == [event["agent_name"] for event in completed]
        assert started["user_prompt"] == "cita mañana 10am con Dr. Pérez"
        for event in completed:
            assert event["llm_tokens_used"] > 0
            assert event["llm_cost_usd"] > 0
            assert event["reasoning"]
        decisions = {event["decision_type"]: event for event in of_type(run, DECISION)}
        assert decisions["temporal_resolution"]["candidates"] == ["2026-01-23", "esta mañana"]
        assert decisions["temporal_resolution"]["chosen"] == "2026-01-23"

    def test_a_silent_model_is_recorded_as_a_transient_failure_of_its_agent(self, recorded):
        _, events = recorded

        failure = next(
            event
            for event in of_type(events, "agent.execution.failed")
            if event["error_type"] == "LLMTimeoutError"
        )
        assert failure["error_code"] == "LLM_TIMEOUT"
        assert failure["error_category"] == "transient"
        assert failure["stage"] == "llm_call"

    def test_model_calls_are_spans_of_their_agents_with_messages_and_usage(self, recorded):
        reports, events = recorded
        run = [event for event in events if event["trace_id"] == reports[0].split()[0]]
        spans = {event["span_id"] for event in of_type(run, "agent.step.completed")}
        spans |= {event["span_id"] for event in of_type(run, "agent.execution.started")}
        calls = of_type(run, "agent.llm.called")

        assert len(calls) == 5
        for call in calls:
            assert call["parent_span_id"] in spans
            assert [each["role"] for each in call["input_messages"]] == ["system", "user"]
            assert [each["role"] for each in call["output_messages"]] == ["assistant"]
            assert (call["temperature"], call["max_tokens"], call["finish_reason"]) == (
                0.3,
                500,
                "stop",
            )
            assert call["llm_tokens_used"] > 0
        totals = of_type(run, "agent.pipeline.completed")[0]
        assert totals["total_llm_tokens"] == sum(call["llm_tokens_used"] for call in calls)

    def test_responses_are_validated_in_steps_with_their_confidence(self, recorded):
        reports, events = recorded
        run = [event for event in events if event["trace_id"] == reports[0].split()[0]]
        steps = [e for e in of_type(run, "agent.step.completed") if e["step_name"] == "validation"]

        assert [step["agent_name"] for step in steps] == [
            "parsing_agent",
            "temporal_agent",
            "availability_agent",
        ]
        assert all(0.5 < step["confidence"] <= 1 for step in steps)

    def test_the_second_run_succeeds_after_a_retry_and_a_fallback(self, recorded):
        reports, events = recorded
        run = [event for event in events if event["trace_id"] == reports[1].split()[0]]

        assert reports[1].endswith(" appointment_created")
        assert of_type(run, "agent.pipeline.completed")[0]["status"] == "partial_success"
        retries = [event["agent_name"] for event in of_type(run, "agent.retry.attempted")]
        assert retries == ["parsing_agent", "geo_agent"]
        assert len(of_type(run, "agent.fallback.triggered")) == 1

    def test_the_third_run_fails_and_shows_why(self, recorded):
        reports, events = recorded
        run = [event for event in events if event["trace_id"] == reports[2].split()[0]]
        closed = of_type(run, "agent.pipeline.completed")[0]
        failed = of_type(run, "agent.execution.failed")[-1]
        steps = [e for e in of_type(run, "agent.step.completed") if e["step_name"] == "validation"]
        rejected = steps[-1]

        assert (closed["status"], closed["error_type"]) == ("failed", "InvalidAnswerError")
        assert (failed["agent_name"], failed["stage"]) == ("availability_agent", "validation")
        assert (failed["error_code"], failed["max_retries_reached"]) == ("INVALID_ANSWER", True)
        assert "slot_offered" in failed["error_message"]
        assert rejected["error_message"] == failed["error_message"]
        assert rejected["confidence"] == 0
        assert len(of_type(run, "agent.retry.attempted")) == 3
        assert len(of_type(run, "agent.fallback.triggered")) == 1

    def test_model_timeout_is_retried(self, recorded):
        _, events = recorded

        retries = {event["trace_id"] for event in of_type(events, "agent.retry.attempted")}
        recovered = [
            event
            for event in of_type(events, "agent.execution.completed")
            if event["trace_id"] in retries and event["was_retried"]
        ]
        assert recovered
        assert all(event["retry_count"] == 1 for event in recovered)

    def test_unknown_place_falls_back_to_the_history_agent(self, recorded):
        _, events = recorded

        taken_over = of_type(events, "agent.fallback.triggered")
        assert taken_over
        for event in taken_over:
            assert (event["primary_agent"], event["fallback_agent"]) == (
                "geo_agent",
                "history_agent",
            )
            assert event["fallback_successful"] is True

    def test_the_same_seed_is_recorded_the_same(self, recorded, tmp_path):
        with AnsweringServer() as server:
            again = record(server, tmp_path)

        assert [line_of(event) for event in recorded[1]] == [
            line_of(event) for event in server.events
        ]
        assert len(again) == 40

    def test_a_run_that_is_stopped_is_recorded_as_cancelled(self, tmp_path):
        with AnsweringServer() as server:
            assert record(server, tmp_path, stop_at=2) == ["stopped"]

        types = [event["event_type"] for event in server.events]
        assert types[-2:] == ["agent.execution.cancelled", "agent.pipeline.completed"]
        assert server.events[-1]["status"] == "cancelled"


DECISION = "agent.decision.recorded"


def line_of(event: dict[str, Any]) -> str:
    """Return the content of an event, without fields that differ between runs."""
    own = ("agent_name", "event_type", "decision_type", "reasoning", "confidence", "error_message")
    return json.dumps([event.get(key) for key in (*own, "llm_tokens_used", "final_outcome")])
