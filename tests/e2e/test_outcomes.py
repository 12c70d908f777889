"""Outcomes that an event could not know yet are filled in when a run is read."""

import os
import subprocess
import sys
import uuid

import pytest

from tests.support.collector import http
from tests.support.waiting import wait_until

PROGRAM = """
import sys
import tracereel
from tracereel.resilience import fallback, fixed_delay, retry

tracereel.configure()
tries = 0


@tracereel.traced_agent("regex_parsing_agent")
def by_regex(text):
    return {"contacto": text}


@fallback(by_regex)
@tracereel.traced_agent("parsing_agent")
def parse(text):
    raise TimeoutError("LLM request timeout after 30s")


@retry(attempts=3, strategy=fixed_delay(0.001))
@tracereel.traced_agent("temporal_agent")
def resolve(text):
    global tries
    tries += 1
    if tries < 3:
        raise ConnectionError("gone")
    return text


@tracereel.traced_pipeline("appointment_creation", trace_id=sys.argv[1])
def book(text):
    parse(text)
    return resolve(text)


book("cita mañana 10am con Dr. Pérez")
"""


SHAPES = """
import sys
import tracereel
from tracereel.resilience import fallback, fixed_delay, retry

tracereel.configure()
twice = retry(attempts=2, strategy=fixed_delay(0.001))
calls = 0


def agent(name, *, fails):
    @tracereel.traced_agent(name)
    def work():
        if fails:
            raise OSError(name)
        return name
    return work


searches = iter([OSError("first"), "found"])


@tracereel.traced_tool("search")
@twice
def search():
    if isinstance(found := next(searches), OSError):
        raise found
    return found


@tracereel.traced_agent("broken_after_its_fallback")
def late():
    fallback(agent("inside", fails=False))(agent("primary", fails=True))()
    fallback(lambda: 1)(lambda: 1 / 0)()
    raise OSError("late")


def again():
    global calls
    calls += 1
    fallback(agent("g", fails=False))(agent("f", fails=True))()
    if calls < 2:
        raise OSError("again")


@tracereel.traced_pipeline("shapes", trace_id=sys.argv[1])
def shapes():
    fallback(agent("b", fails=False))(twice(agent("a", fails=True)))()
    fallback([agent("d", fails=True), agent("e", fails=False)])(agent("c", fails=True))()
    for failing in (late, fallback(agent("i", fails=True))(agent("h", fails=True))):
        try:
            failing()
        except OSError:
            pass
    for _ in range(int(sys.argv[2])):
        tracereel.record_decision("d")
    twice(again)()
    search()
    fallback(agent("k", fails=False))(many)()


@tracereel.traced_agent("many")
def many():
    for _ in range(int(sys.argv[2])):
        tracereel.record_decision("d")
    raise OSError("many")


shapes()
"""


MANY = """
import sys
import tracereel
from tracereel.resilience import fallback

tracereel.configure()


@tracereel.traced_agent("backup")
def backup():
    return 1


@fallback(backup)
@tracereel.traced_agent("primary")
def work():
    raise OSError("gone")


@tracereel.traced_pipeline("many", trace_id=sys.argv[1])
def many():
    for _ in range(int(sys.argv[2])):
        work()


many()
"""


@pytest.fixture(scope="module")
def document(collector, tmp_path_factory):
    return recorded(PROGRAM, collector, tmp_path_factory)


def recorded(program, collector, tmp_path_factory, *, times=0):
    """Run a program and return the replay of its run."""
    trace_id = f"trc_{uuid.uuid4().hex}"
    spool = tmp_path_factory.mktemp("spool")
    environ = {
        **os.environ,
        "TRACEREEL_ENDPOINT": collector.url,
        "TRACEREEL_EVENT_LOGS": "off",
        "TRACEREEL_SPOOL_DIR": str(spool),
    }
    done = subprocess.run(
        [sys.executable, "-c", program, trace_id, str(times)],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")

    def whole():
        answer = collector.replay(trace_id)
        found = answer.json() if answer.status == 200 else None
        return (
            found if found and found["summary"]["completeness"]["verdict"] == "complete" else None
        )

    return wait_until(whole, timeout=30)


def details(document, event_type):
    return [each["details"] for each in document["timeline"] if each["event"] == event_type]


def test_a_failure_says_whether_its_fallback_succeeded(document):
    failed = details(document, "agent.execution.failed")
    outcomes = {(each["agent_name"], each["fallback_successful"]) for each in failed}

    assert outcomes == {("parsing_agent", True), ("temporal_agent", None)}


def test_a_retry_says_whether_it_succeeded(document):
    retries = details(document, "agent.retry.attempted")

    assert [(each["retry_attempt"], each["retry_successful"]) for each in retries] == [
        (1, False),
        (2, True),
    ]


def test_a_pipeline_without_a_plan_begins_with_the_agents_that_ran(document):
    (started,) = details(document, "agent.pipeline.started")
    (closed,) = details(document, "agent.pipeline.completed")

    assert started["agent_sequence"] == ["parsing_agent", "regex_parsing_agent", "temporal_agent"]
    assert started["sequence_length"] == 3
    assert closed["agent_sequence"] == started["agent_sequence"]


def test_the_tree_has_the_outcome_of_the_fallback(collector, document):
    tree = http("GET", f"{collector.url}/v1/traces/{document['trace_id']}").json()
    (primary,) = [
        each
        for each in tree["steps"]
        if each.get("agent") == "parsing_agent" and each["kind"] == "agent"
    ]

    assert (primary["status"], primary["fallback_successful"]) == ("failed", True)


def test_a_replaced_primary_is_not_counted_as_failed(document):
    (pipeline,) = document["summary"]["pipelines"]

    assert pipeline["status"] == "partial_success"
    assert (pipeline["agents_failed"], pipeline["agents_replaced"]) == (0, 1)
    assert (pipeline["agents_executed"], pipeline["agents_succeeded"]) == (3, 2)


COUNTS = ("executed", "succeeded", "failed", "cancelled", "replaced", "retried")


def test_the_pipelines_own_event_has_the_counts_that_are_read_back(collector, tmp_path_factory):
    document = recorded(SHAPES, collector, tmp_path_factory)
    (pipeline,) = document["summary"]["pipelines"]
    (closed,) = details(document, "agent.pipeline.completed")
    said = {name: closed[f"agents_{name}"] for name in COUNTS}

    assert said == {
        # a and b, c to e, the late one with primary and inside, h and i, f and g, many and k
        "executed": 14,
        "succeeded": 5,
        "failed": 4,
        "cancelled": 0,
        "replaced": 5,
        "retried": 3,
    }
    assert said == {name: pipeline[f"agents_{name}"] for name in COUNTS}
    assert closed["status"] == pipeline["status"] == "partial_success"


def test_outcomes_of_a_run_that_is_read_in_pages_are_those_of_the_whole_run(
    collector, tmp_path_factory
):
    document = recorded(SHAPES, collector, tmp_path_factory, times=1_100)
    whole = {each["details"]["event_id"]: each["details"] for each in document["timeline"]}
    paged, place = {}, ""
    while place is not None:
        page = collector.replay(f"{document['trace_id']}?limit=300&after={place}").json()
        paged |= {each["details"]["event_id"]: each["details"] for each in page["timeline"]}
        place = page["next"]

    assert page["summary"]["in_short"] is True
    assert paged == whole
    (started,) = [each for each in paged.values() if each["event_type"].endswith("e.started")]
    assert started["sequence_length"] == len(started["agent_sequence"]) > 10
    assert {each.get("retry_successful") for each in paged.values()} == {None, True, False}
    assert {each.get("fallback_successful") for each in paged.values()} == {None, True, False}


def test_outcomes_of_a_page_with_very_many_attempts_are_filled_in(collector, tmp_path_factory):
    """All of them are known to events of the page itself."""
    trace_id = recorded(MANY, collector, tmp_path_factory, times=800)["trace_id"]

    page = collector.replay(f"{trace_id}?limit=5000").json()

    assert page["summary"]["in_short"] is True
    failed = details(page, "agent.execution.failed")
    assert len(failed) == 800
    assert {each["fallback_successful"] for each in failed} == {True}
