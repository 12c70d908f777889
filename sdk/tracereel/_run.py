"""What outlives a single call: the trace, the state of one execution, the counts of a pipeline.

All of it hangs on the execution that made it, never on a module: runs side by side cannot mix.
"""

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tracereel import _native

MAX_RESULTS: Final = 256
"""Agents listed one by one on a pipeline's closing event; beyond that they are only counted."""
MAX_SEEN_TOOLS: Final = 10_000
"""Ids of tool calls remembered per execution; beyond that repeats are no longer told apart."""

lock: Final = _native.RLock()
"""For the sums of all runs, each a few additions. Re-entrant: a signal handler may make a traced call
while its own thread is in here."""
# One for all, so that it can be free in a forked child: a thread that held it is not there any more.
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


class Trace:
    """One trace as this process sees it: its ids, and how many events it has recorded for it.

    `emitter_id`, `recorded` and `told` belong to the spool, which changes them under its lock.
    """

    __slots__ = ("emitter_id", "over", "recorded", "request_id", "tape", "told", "trace_id")

    def __init__(self, trace_id: str, request_id: str) -> None:
        self.trace_id = trace_id
        self.request_id = request_id
        self.emitter_id: str | None = None
        self.recorded = 0
        self.over = False
        """Whether its run has ended, so that what ends later has another end to tell."""
        self.told = False
        """Whether the last event that was written says how many there are."""
        self.tape: Any = None
        """What is recorded of it for re-execution, if anything is."""


class Usage:
    """Tokens and cost, summed; each null until somebody has said something of it."""

    __slots__ = ("completion", "cost", "prompt", "total")

    def __init__(self) -> None:
        self.prompt: int | None = None
        self.completion: int | None = None
        self.total: int | None = None
        self.cost: float | None = None

    def add(
        self,
        prompt: int | None,
        completion: int | None,
        total: int | None,
        cost: float | None,
    ) -> None:
        """Add what one call used. Without a total, it is what is known of its parts."""
        if total is None and (prompt is not None or completion is not None):
            total = (prompt or 0) + (completion or 0)
        if prompt is not None:
            self.prompt = (self.prompt or 0) + prompt
        if completion is not None:
            self.completion = (self.completion or 0) + completion
        if total is not None:
            self.total = (self.total or 0) + total
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost


class State:
    """What belongs to one execution of an agent or pipeline and to everything called inside it."""

    __slots__ = (
        "abandoned_cost",
        "attempts_cost",
        "calls_models",
        "duplicate_tool_calls",
        "execution_id",
        "indexes",
        "limit_reached",
        "round_limit",
        "rounds",
        "seen_tools",
        "usage",
    )

    def __init__(self, execution_id: str) -> None:
        self.execution_id = execution_id
        self.indexes = itertools.count()
        """Numbers of the events; `next` on it is atomic."""
        self.usage: Usage | None = None
        self.seen_tools: set[str] | None = None
        self.duplicate_tool_calls = 0
        self.rounds = 0
        self.round_limit: int | None = None
        self.limit_reached = False
        self.calls_models = False
        """Whether a model was called in a traced call: its duration is counted there."""
        self.attempts_cost = 0.0
        """Cost of attempts inside that failed or were repeated, and of routes that were given up."""
        self.abandoned_cost = 0.0

    def add_usage(
        self,
        prompt: int | None,
        completion: int | None,
        total: int | None,
        cost: float | None,
    ) -> None:
        """Add what one call of a model used to the sums of the execution."""
        if prompt is None and completion is None and total is None and cost is None:
            return
        with lock:
            if self.usage is None:
                self.usage = Usage()
            self.usage.add(prompt, completion, total, cost)

    def is_repeat(self, tool_call_id: str) -> bool:
        """Whether a tool call of this id has been recorded already; remembers and counts it."""
        with lock:
            if self.seen_tools is None:
                self.seen_tools = set()
            if tool_call_id in self.seen_tools:
                self.duplicate_tool_calls += 1
                return True
            if len(self.seen_tools) < MAX_SEEN_TOOLS:
                self.seen_tools.add(tool_call_id)
            return False

    def begin_round(self, limit: int | None) -> None:
        """Count a round of an agent's loop, unless the limit has been reached."""
        with lock:
            if limit is not None:
                self.round_limit = limit
                if self.rounds >= limit:
                    self.limit_reached = True
                    return
            self.rounds += 1


@dataclass(slots=True)
class Ended:
    """An execution of an agent that has ended: what counts as it, until another attempt repeats it."""

    agent_name: str
    execution_id: str
    status: str
    retry_count: int = 0
    earlier: int = 0
    """Executions before it of which this one was another attempt."""
    cost: float = 0.0
    cost_left: float = 0.0
    """Of the cost, what is not known to be wasted."""
    tally: "Tally | None" = None
    repeated: bool = False


class Tally:
    """What a pipeline knows of the agents inside it; the pipelines around it count them too.

    The counts are of this process: agents that run elsewhere are counted where they run.
    """

    __slots__ = (
        "around",
        "cancelled",
        "executed",
        "failed",
        "results",
        "retried",
        "succeeded",
        "usage",
    )

    def __init__(self, around: "Tally | None") -> None:
        self.around = around
        self.executed = 0
        self.succeeded = 0
        self.failed = 0
        self.cancelled = 0
        self.retried = 0
        self.results: list[dict[str, Any]] = []
        self.usage = Usage()

    def begin(self) -> None:
        """An agent begins, here and in every pipeline around."""
        with lock:
            tally: Tally | None = self
            while tally is not None:
                tally.executed += 1
                tally = tally.around

    def take_back(self, ended: Ended) -> None:
        """An agent that has ended is tried again: what counts is the attempt that now begins."""
        with lock:
            counted = set(_chain(ended.tally))
            for tally in _chain(self):
                if tally.forget(ended.execution_id) or tally in counted:
                    tally.executed -= 1
                    tally.succeeded -= ended.status == "success"
                    tally.failed -= ended.status == "failed"
                    tally.cancelled -= ended.status == "cancelled"
                    tally.retried -= ended.retry_count > 0

    def forget(self, execution_id: str) -> bool:
        """Take an agent off the list; whether it was there."""
        for index in range(len(self.results) - 1, -1, -1):
            if self.results[index]["execution_id"] == execution_id:
                del self.results[index]
                return True
        return False

    def end(
        self,
        result: dict[str, Any],
        prompt: int | None,
        completion: int | None,
        total: int | None,
        cost: float | None,
    ) -> None:
        """An agent has ended, with this result and these sums of its own calls of models."""
        status = result["status"]
        with lock:
            tally: Tally | None = self
            while tally is not None:
                tally.succeeded += status == "success"
                tally.failed += status == "failed"
                tally.cancelled += status == "cancelled"
                tally.retried += result["retry_count"] > 0
                if len(tally.results) < MAX_RESULTS:
                    tally.results.append(result)
                tally.usage.add(prompt, completion, total, cost)
                tally = tally.around


def _chain(tally: Tally | None) -> Iterator[Tally]:
    while tally is not None:
        yield tally
        tally = tally.around
