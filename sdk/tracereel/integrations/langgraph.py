"""LangGraph: a graph is an execution of an agent, its nodes are steps, its interrupts are waits.

from tracereel.integrations.langgraph import wrap

graph = wrap(builder.compile())
"""

from typing import TypeVar

from tracereel.integrations import _packages
from tracereel.integrations.langchain import TracereelHandler as TracereelHandler
from tracereel.integrations.langchain import instrument as instrument
from tracereel.integrations.langchain import uninstrument as uninstrument

GraphT = TypeVar("GraphT")


def wrap(graph: GraphT, *, handler: TracereelHandler | None = None) -> GraphT:
    """A copy of a compiled graph whose runs are recorded; the graph itself stays as it is.

    Args:
        handler: one that is there already; a new one otherwise.

    Raises:
        TypeError: it is no compiled graph.
    """
    with_config = getattr(graph, "with_config", None)
    if with_config is None:
        raise TypeError(f"wrap takes a compiled graph; got {_packages.kind_of(graph)}")
    wrapped: GraphT = with_config({"callbacks": [handler or TracereelHandler()]})
    return wrapped
