"""State that outlives a single call: usage, executions, pipeline counts and recent traces.

Each object belongs to the execution that created it, so concurrent runs never mix.
"""

import itertools
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from tracereel import semconv
from tracereel._export.trace_state import TraceState
from tracereel._runtime import gevent_compat
from tracereel._runtime.clock import sortable_id

Emitted = Literal["dropped", "held", "spooled", "stored"]
"""Where an emitted event is: nowhere, in memory, on disk, or in the collector's store."""
MAX_RESULTS: Final = 256
"""Maximum number of agents listed on a pipeline's closing event; all are counted."""
MAX_REMEMBERED_TRACES: Final = 4096
"""Maximum number of cached traces; sibling runs of an OpenTelemetry trace continue its count."""
MAX_SEEN_TOOLS: Final = 10_000
"""Maximum number of tool call ids remembered per execution; later repeats are not detected."""

lock: Final = gevent_compat.RLock()
"""Lock for the totals of all runs. Re-entrant: a signal handler may make a traced call in a
thread that holds it.
"""
# One lock for all runs, so that a fork can release it: its owner does not exist in the child.
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


Usage = tuple[int | None, int | None, int | None, float | None]
"""Prompt tokens, completion tokens, all tokens and cost; `None` if unknown."""


class UsageTotals:
    """Sums of tokens and cost; each is `None` until a value is added."""

    __slots__ = ("completion", "cost", "prompt", "total")

    def __init__(self) -> None:
        self.prompt: int | None = None
        self.completion: int | None = None
        self.total: int | None = None
        self.cost: float | None = None

    def add(self, usage: Usage) -> None:
        """Add the usage of one call; a missing total is the sum of its parts."""
        prompt, completion, total, cost = usage
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


class ExecutionState:
    """State shared by an execution of an agent or pipeline and the calls inside."""

    __slots__ = (
        "abandoned_cost",
        "attempts_cost",
        "calls_models",
        "decision",
        "duplicate_tool_calls",
        "execution_id",
        "indexes",
        "limit_reached",
        "round_limit",
        "rounds",
        "seen_tools",
        "tick",
        "usage",
    )

    def __init__(self, execution_id: str) -> None:
        self.execution_id = execution_id
        self.tick: int | None = None
        """Performance counter at the start."""
        self.indexes = itertools.count()
        """Event numbers; `next` is atomic."""
        self.usage: UsageTotals | None = None
        self.decision: dict[str, Any] | None = None
        """Confidence, type and reasoning of the last decision, as far as known."""
        self.seen_tools: set[str] | None = None
        self.duplicate_tool_calls = 0
        self.rounds = 0
        self.round_limit: int | None = None
        self.limit_reached = False
        self.calls_models = False
        """Whether a traced call called a model; the duration is then counted there."""
        self.attempts_cost = 0.0
        """Cost of failed or repeated attempts; `abandoned_cost` is that of abandoned routes."""
        self.abandoned_cost = 0.0

    def add_usage(self, usage: Usage) -> None:
        """Add the usage of one model call."""
        if usage == (None, None, None, None):
            return
        with lock:
            if self.usage is None:
                self.usage = UsageTotals()
            self.usage.add(usage)

    def is_repeat(self, tool_call_id: str) -> bool:
        """Return whether a tool call of this id was recorded before; remember and count it."""
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
        """Count a round of an agent loop, up to the limit."""
        with lock:
            if limit is not None:
                self.round_limit = limit
                if self.rounds >= limit:
                    self.limit_reached = True
                    return
            self.rounds += 1


@dataclass(slots=True)
class Ended:
    """Ended agent execution; it counts until another attempt repeats it."""

    agent_name: str
    execution_id: str
    status: str
    retry_count: int = 0
    earlier: int = 0
    """Number of earlier executions that this one retried."""
    cost: float = 0.0
    cost_left: float = 0.0
    """Part of the cost not known to be wasted."""
    tally: "Tally | None" = None
    repeated: bool = False
    fallback_attempted: bool = False
    """Whether a fallback follows if it failed."""
    replaced: bool = False
    """Whether it failed and its fallback delivered the result."""


class Tally:
    """Counts of the agents in a pipeline; outer pipelines count them too.

    Only agents of this process are counted.
    """

    __slots__ = ("around", "counts", "executed", "results", "retried", "sequence", "usage")

    def __init__(self, around: "Tally | None") -> None:
        self.around = around
        self.executed = 0
        self.retried = 0
        self.counts: Counter[str] = Counter()
        """Number of ended agents by status."""
        self.results: list[dict[str, Any]] = []
        self.sequence: list[str] = []
        """Names of the agents in the order of their starts."""
        self.usage = UsageTotals()

    def begin(self, name: str) -> None:
        """Count a started agent, here and in all outer pipelines."""
        with lock:
            for tally in _chain(self):
                tally.executed += 1
                if len(tally.sequence) < MAX_RESULTS:
                    tally.sequence.append(name)

    def take_back(self, ended: Ended) -> None:
        """Remove a finished execution from the counts, because its retry replaces it."""
        with lock:
            counted = set(_chain(ended.tally))
            for tally in _chain(self):
                if tally.forget(ended.execution_id) or tally in counted:
                    tally.executed -= 1
                    if ended.agent_name in tally.sequence:
                        last = tally.sequence[::-1].index(ended.agent_name)
                        del tally.sequence[-1 - last]
                    tally.counts[semconv.REPLACED if ended.replaced else ended.status] -= 1
                    tally.retried -= ended.retry_count > 0

    def replace(self, ended: Ended) -> None:
        """Count a failed execution as replaced, because its fallback delivered the result."""
        with lock:
            ended.replaced = True
            for tally in _chain(self):
                tally.counts[semconv.FAILED] -= 1
                tally.counts[semconv.REPLACED] += 1
                for result in reversed(tally.results):
                    if result["execution_id"] == ended.execution_id:
                        result["replaced"] = True
                        break

    def forget(self, execution_id: str) -> bool:
        """Remove an agent from the results; return whether it was listed."""
        for index in range(len(self.results) - 1, -1, -1):
            if self.results[index]["execution_id"] == execution_id:
                del self.results[index]
                return True
        return False

    def end(self, result: dict[str, Any], usage: Usage) -> None:
        """Count an ended agent with its result and usage, here and in all outer pipelines."""
        with lock:
            for tally in _chain(self):
                tally.counts[result["status"]] += 1
                tally.retried += result["retry_count"] > 0
                if len(tally.results) < MAX_RESULTS:
                    tally.results.append(result)
                tally.usage.add(usage)

    def add_usage(self, usage: UsageTotals) -> None:
        """Add model calls outside of agents, here and in all outer pipelines."""
        with lock:
            for tally in _chain(self):
                tally.usage.add((usage.prompt, usage.completion, usage.total, usage.cost))


def _chain(tally: Tally | None) -> Iterator[Tally]:
    while tally is not None:
        yield tally
        tally = tally.around


class RememberedTraces:
    """Bounded cache of traces by id, with a count of opened runs.

    Consecutive runs with one trace id share their state.
    """

    def __init__(self) -> None:
        self.opened = 0
        self.known: dict[str, TraceState] = {}
        self.older: dict[str, TraceState] = {}
        # Re-entrant: a signal handler may make a traced call in a thread that holds it.
        self._lock = gevent_compat.RLock()

    def trace(self, trace_id: str, suffix: str | None = None) -> TraceState:
        """Return the cached or a new trace for a root run.

        A new trace gets a request id, made from the suffix of another id if given.
        """
        self.opened += 1
        known = self.known
        if (found := known.get(trace_id)) is not None:
            return found
        # Two generations instead of an LRU order: entries unused during one generation are evicted.
        with self._lock:
            known = self.known
            found = known.get(trace_id) or self.older.get(trace_id)
            if found is None:
                found = TraceState(trace_id, f"req_{suffix}" if suffix else sortable_id("req"))
            known[trace_id] = found
            if len(known) >= MAX_REMEMBERED_TRACES // 2:
                self.known, self.older = {}, known
            return found

    def reopen(self, trace: TraceState) -> None:
        """Count another run of a trace, and cache it again if it was evicted."""
        self.opened += 1
        with self._lock:
            self.known.setdefault(trace.trace_id, trace)
