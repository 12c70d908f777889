"""LangGraph integration: a graph is an agent execution, its nodes are steps, interrupts are waits.

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
    """Return a copy of a compiled graph whose runs are recorded.

    Args:
        handler: handler to use; default: a new one.

    Raises:
        TypeError: it is not a compiled graph.
    """
    with_config = getattr(graph, "with_config", None)
    if with_config is None:
        raise TypeError(f"wrap takes a compiled graph; got {_packages.kind_of(graph)}")
    wrapped: GraphT = with_config({"callbacks": [handler or TracereelHandler()]})
    return wrapped
