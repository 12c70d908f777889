"""The line that says how a program without a tracer provider gets its own spans."""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sdk.conftest import Child
from tests.support.otlp_sink import OtlpSink

AGENT = """
import sys

import tracereel

{imports}


@tracereel.traced_agent("a")
def agent():
    print("inside", file=sys.stderr)
    {body}


agent()
agent()
{after}
"""
LINE = "spans that this program starts itself are not recorded"


@pytest.fixture
def printed(child: Child, tmp_path: Path) -> Iterator[Callable[..., list[str]]]:
    """Run a program; return the lines on its standard error."""
    with OtlpSink() as sink:

        def run(
            *, first: str = "", imports: str = "", body: str = "", after: str = "", **environ: str
        ) -> list[str]:
            (tmp_path / "helper.py").write_text("from opentelemetry import trace\n")
            program = AGENT.format(
                imports=textwrap.dedent(imports), body=body, after=textwrap.dedent(after)
            )
            environ = {"PYTHONPATH": str(tmp_path), "TRACEREEL_ENDPOINT": sink.url, **environ}
            process = child(f"{first}\n{program}", **environ)
            assert process.wait(60) == 0, process.stderr.read()
            return [
                "the line" if LINE in line else line for line in process.stderr.read().splitlines()
            ]

        yield run


USES = {
    "imported": {"imports": "from opentelemetry import trace"},
    "imported before tracereel": {"first": "from opentelemetry import trace"},
    "imported by its full name": {"imports": "import opentelemetry.trace"},
    "with a tracer": {
        "imports": """
        from opentelemetry.trace import get_tracer as tracer_of
        tracer = tracer_of(__name__)
        del tracer_of
        """
    },
    "with the function that makes tracers": {
        "imports": "from opentelemetry.trace import get_tracer",
        "body": "with get_tracer('t').start_as_current_span('lost'): pass",
    },
    "in a module": {"imports": "import helper"},
    "with logging": {
        "imports": """
        import logging
        from opentelemetry import trace
        logging.basicConfig(format="%(message)s")
        """
    },
    "with a configuration that opts out": {
        "imports": """
        from opentelemetry import trace
        tracereel.configure(set_tracer_provider=False, event_logs="off")
        """
    },
}
LATER = {
    "imported inside": {
        "body": "from opentelemetry.trace import get_tracer as t; t('t').start_span('lost').end()"
    },
    "an attribute": {
        "body": "from opentelemetry import trace as t; t.get_current_span().set_attribute('k', 1)"
    },
}
QUIET = {
    "no span": {},
    "imported after the calls": {"after": "from opentelemetry import trace"},
    "configured": {
        "imports": """
        from opentelemetry import trace
        tracereel.configure(set_tracer_provider=True, event_logs="off")
        """
    },
    "a provider": {
        "imports": """
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        trace.set_tracer_provider(TracerProvider())
        """
    },
    "a provider that makes no spans": {
        "imports": """
        from opentelemetry import trace
        trace.set_tracer_provider(trace.NoOpTracerProvider())
        """
    },
    "spans of the program turned off": {
        "imports": "from opentelemetry import trace",
        "TRACEREEL_OTHER_SPANS": "0",
    },
}


@pytest.mark.parametrize("use", USES)
def test_a_program_that_uses_opentelemetry_gets_the_line_at_its_first_traced_call(
    printed: Callable[..., list[str]], use: str
) -> None:
    assert printed(**USES[use]) == ["the line", "inside", "inside"]


@pytest.mark.parametrize("use", LATER)
def test_a_program_that_shows_its_use_later_gets_the_line_with_the_first_lost_span(
    printed: Callable[..., list[str]], use: str
) -> None:
    assert printed(**LATER[use]) == ["inside", "the line", "inside"]


@pytest.mark.parametrize("use", QUIET)
def test_a_program_that_loses_no_span_gets_no_line(
    printed: Callable[..., list[str]], use: str
) -> None:
    assert printed(**QUIET[use]) == ["inside", "inside"]
