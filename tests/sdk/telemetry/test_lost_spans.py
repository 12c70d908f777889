"""The line that says how a program without a tracer provider gets its own spans."""

import textwrap
from collections.abc import Callable, Iterator

import pytest

from tests.sdk.conftest import Child
from tests.support.otlp_sink import OtlpSink

AGENT = """
import sys

import tracereel

{setup}


@tracereel.traced_agent("a")
def agent():
    print("inside", file=sys.stderr)


agent()
agent()
"""
LINE = "spans that this program starts itself are not recorded"
ADVICE = "call tracereel.configure() at its start, or set a provider"


@pytest.fixture
def said(child: Child) -> Iterator[Callable[..., list[str]]]:
    """Run a program that chose nothing about providers; return the lines on its standard error."""
    with OtlpSink() as sink:

        def run(setup: str = "", **environ: str) -> list[str]:
            environ = {
                "TRACEREEL_ENDPOINT": sink.url,
                "TRACEREEL_SET_TRACER_PROVIDER": "",
                **environ,
            }
            process = child(AGENT.format(setup=textwrap.dedent(setup)), **environ)
            assert process.wait(60) == 0, process.stderr.read()
            return [
                "the line" if LINE in line and ADVICE in line else line
                for line in process.stderr.read().splitlines()
            ]

        yield run


SAID = {
    "nothing": "",
    "a tracer": """
        from opentelemetry import trace
        tracer = trace.get_tracer(__name__)
    """,
    "logging": """
        import logging
        logging.basicConfig(format="%(message)s")
    """,
}
QUIET = {
    "configure": 'tracereel.configure(event_logs="off")',
    "a configuration that opts out": """
        tracereel.configure(set_tracer_provider=False, event_logs="off")
    """,
    "a provider": """
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        trace.set_tracer_provider(TracerProvider())
    """,
    "a provider that makes no spans": """
        from opentelemetry import trace
        trace.set_tracer_provider(trace.NoOpTracerProvider())
    """,
    "a recorder of tests": """
        from tracereel.testing import EventRecorder
        recorder = EventRecorder().start()
    """,
}


@pytest.mark.parametrize("setup", SAID.values(), ids=SAID)
def test_the_first_traced_call_says_once_how_to_get_the_programs_own_spans(
    said: Callable[..., list[str]], setup: str
) -> None:
    assert said(setup) == ["the line", "inside", "inside"]


@pytest.mark.parametrize("setup", QUIET.values(), ids=QUIET)
def test_a_program_that_has_decided_about_a_provider_gets_no_line(
    said: Callable[..., list[str]], setup: str
) -> None:
    assert said(setup) == ["inside", "inside"]


@pytest.mark.parametrize("name", ["TRACEREEL_SET_TRACER_PROVIDER", "TRACEREEL_OTHER_SPANS"])
def test_the_line_can_be_turned_off_from_outside(said: Callable[..., list[str]], name: str) -> None:
    assert said(**{name: "0"}) == ["inside", "inside"]
