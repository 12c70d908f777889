"""Code that retries with tenacity or stamina produces the same events."""

import asyncio
import subprocess
import sys

import pytest

from tests.sdk.resilience.scripted import Scripted
from tracereel import traced_agent, traced_pipeline
from tracereel.resilience import instrument_stamina
from tracereel.resilience.stamina import on_retry, uninstrument_stamina
from tracereel.resilience.tenacity import before_sleep

tenacity = pytest.importorskip("tenacity")
stamina = pytest.importorskip("stamina")


@pytest.fixture
def _stamina():
    """Restore stamina's hooks; its defaults would log and count in Prometheus."""
    stamina.instrumentation.set_on_retry_hooks([])
    yield
    stamina.instrumentation.set_on_retry_hooks(None)


def tenacious(naps, **options):
    given = {
        "stop": tenacity.stop_after_attempt(3),
        "wait": tenacity.wait_fixed(2),
        "sleep": naps,
        "before_sleep": before_sleep(),
        "reraise": True,
    }
    return tenacity.retry(**{**given, **options})


def test_tenacity_inside_an_agent(recorded, naps, spans):
    script = Scripted(OSError("x"), TimeoutError("y"), "done")

    @traced_agent("a")
    @tenacious(naps)
    def call() -> str:
        return script()

    assert call() == "done"
    started, first, second, completed = recorded()
    expected = {
        "event_type": "agent.retry.attempted",
        "agent_name": "a",
        "retry_attempt": 1,
        "original_error": "OSError: x",
        "retry_reason": "error",
        "retry_strategy": "fixed_delay",
        "delay_seconds": 2.0,
        "retry_successful": None,
        "trace_id": started["trace_id"],
        "execution_id": started["execution_id"],
    }
    assert {name: first[name] for name in expected} == expected
    assert (second["retry_attempt"], second["retry_reason"]) == (2, "timeout")
    assert (completed["was_retried"], completed["retry_count"]) == (True, 2)
    (span,) = spans.get_finished_spans()
    assert [event.name for event in span.events] == ["retry_attempted"] * 2


@pytest.mark.parametrize(
    ("wait", "name"),
    [
        (tenacity.wait_exponential(), "exponential_backoff"),
        (tenacity.wait_random_exponential(), "exponential_backoff"),
        (tenacity.wait_exponential_jitter(), "exponential_backoff"),
        (tenacity.wait_none(), "fixed_delay"),
        (tenacity.wait_incrementing(), "wait_incrementing"),
    ],
)
def test_waits_of_tenacity_by_the_names_of_the_contract(naps, of_type, wait, name):
    traced_agent("a")(tenacious(naps, wait=wait)(Scripted(OSError(), "done")))()
    (event,) = of_type("retry.attempted")
    assert event["retry_strategy"] == name


def test_results_that_tenacity_refuses(naps, of_type):
    refusing = tenacity.retry_if_result(lambda result: result is None)

    traced_agent("a")(tenacious(naps, retry=refusing)(Scripted(None, "done")))()
    (event,) = of_type("retry.attempted")
    assert event["retry_reason"] == "low_confidence"
    assert event["original_error"] == "the result was not accepted"


def test_tenacity_around_an_agent_in_a_pipeline(recorded, naps):
    script = Scripted(OSError("x"), "done")

    @tenacious(naps.later)
    @traced_agent("a")
    async def call() -> str:
        return script()

    @traced_pipeline("p")
    async def run() -> str:
        return await call()

    assert asyncio.run(run()) == "done"
    (event,) = [each for each in recorded() if each["event_type"] == "agent.retry.attempted"]
    assert event["agent_name"] == "a"


def test_tenacity_outside_of_everything_is_counted_as_dropped(recorded, registry, naps):
    assert tenacious(naps, before_sleep=before_sleep("a"))(Scripted(OSError(), "done"))() == "done"
    assert recorded() == []
    labels = {"reason": "no_execution"}
    assert registry.get_sample_value("tracereel_sdk_events_dropped_total", labels) == 1


@pytest.mark.usefixtures("_stamina")
def test_stamina_inside_an_agent(recorded):
    instrument_stamina()
    script = Scripted(OSError("x"), "done")

    @traced_agent("a")
    @stamina.retry(on=OSError, attempts=3, wait_initial=0, wait_max=0, wait_jitter=0)
    def call() -> str:
        return script()

    assert call() == "done"
    _, event, completed = recorded()
    assert event["event_type"] == "agent.retry.attempted"
    assert (event["agent_name"], event["retry_attempt"]) == ("a", 1)
    assert event["retry_strategy"] == "exponential_backoff"
    assert (completed["was_retried"], completed["retry_count"]) == (True, 1)


@pytest.mark.usefixtures("_stamina")
def test_stamina_in_a_pipeline_uses_the_name_of_the_function(of_type):
    instrument_stamina()
    script = Scripted(OSError("x"), "done")

    @stamina.retry(on=OSError, attempts=3, wait_initial=0, wait_max=0, wait_jitter=0)
    def look_up() -> str:
        return script()

    traced_pipeline("p")(look_up)()
    (event,) = of_type("retry.attempted")
    assert event["agent_name"].endswith("look_up")


@pytest.mark.usefixtures("_stamina")
def test_stamina_is_instrumented_once_and_keeps_its_other_hooks():
    def other(details):
        """Another hook."""

    stamina.instrumentation.set_on_retry_hooks([other])

    instrument_stamina()
    instrument_stamina()
    assert stamina.instrumentation.get_on_retry_hooks() == (other, on_retry)

    uninstrument_stamina()
    assert stamina.instrumentation.get_on_retry_hooks() == (other,)


def test_importing_ours_does_not_import_theirs():
    script = (
        "import sys, tracereel.resilience as r\n"
        "r.retry, r.fallback, r.instrument_stamina, r.exponential_backoff\n"
        "import tracereel.resilience.tenacity\n"
        "print([name for name in ('tenacity', 'stamina') if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
