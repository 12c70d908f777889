"""Examples that `tracereel demo` can run, with descriptions and requirements."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Protocol

from tracereel.demo.run import RunReport


class Runner(Protocol):
    """Function that runs an example repeatedly."""

    def __call__(
        self,
        *,
        runs: int | None,
        interval: float,
        seed: int | None,
        sleep: Callable[[float], None] = ...,
    ) -> Iterator[RunReport]:
        """Run the example `runs` times (None: forever), `interval` seconds apart."""


@dataclass(frozen=True, slots=True)
class Example:
    """One example; its module is imported when it is run."""

    shows: str
    module: str
    function: str
    extra: str | None = None
    """Optional dependency group that it requires."""

    def load(self) -> Runner:
        """Import and return the runner.

        Raises:
            ImportError: a required package is not installed.
        """
        runner: Runner = getattr(import_module(f"tracereel.demo.{self.module}"), self.function)
        return runner


EXAMPLES: Final = {
    "appointment": Example("five agents that book an appointment", "run", "run_demo"),
    "orchestrator": Example(
        "a LangGraph router and two specialists that reason and act in turn",
        "run_orchestrator",
        "run_orchestrator",
        extra="langgraph",
    ),
    "questions": Example(
        "an agent that answers by Server-Sent Events, in threads",
        "run_questions",
        "run_questions",
    ),
}
DEFAULT: Final = "appointment"
