"""A traced program without a tracer provider; with `own`, it makes spans of its own."""

import sys

from tracereel import traced_agent

if "own" in sys.argv:
    from opentelemetry import trace

    tracer = trace.get_tracer(__name__)


@traced_agent("parsing_agent")
def process() -> None:
    """Print when a traced call runs."""
    print("call", file=sys.stderr)


process()
process()
