"""What the collector answers, typed; fields that a newer collector adds are kept as they are."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """An answer, or a part of one: frozen, and lenient about what it does not know."""

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of a timeline, or one record of a live stream."""

    time: str
    event: str
    details: Mapping[str, Any]
    """The event as it was sent, with what the collector added."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What else the collector says of it: offsets, durations, the step it belongs to."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A recorded run: its events in causal order and what they add up to."""

    trace_id: str
    timeline: tuple[Step, ...]
    summary: Mapping[str, Any]
    raw: bytes
    """The answer as the collector sent it."""
    next: str | None = None
    """Where the next page begins; None on the last."""


class Run(Model):
    """A run as the search lists it."""

    trace_id: str
    name: str | None = None
    status: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    duration_ms: float | None = None
    prompt: str | None = None
    pipeline_type: str | None = None
    agents: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    session_id: str | None = None
    user_id: str | None = None
    error_types: tuple[str, ...] = ()
    error_categories: tuple[str, ...] = ()
    events: int = 0
    spans: int = 0
    errors: int = 0
    retries: int = 0
    fallbacks: int = 0
    tokens: int | None = None
    cost_usd: float | None = None
    lowest_confidence: float | None = None


class RunPage(Model):
    """A page of the search."""

    traces: tuple[Run, ...]
    next: str | None = None
    """The cursor of the next page; None on the last."""
    facets: Any = None
    histogram: Any = None


class TreeStep(Model):
    """One step of a run's tree; `depth` and `parent_id` say where it hangs."""

    id: str
    kind: str
    depth: int = 0
    parent_id: str | None = None
    name: str = ""
    status: str = ""
    agent: str = ""
    offset_ms: float | None = None
    duration_ms: float | None = None
    model: str = ""
    tokens: int | None = None
    cost_usd: float | None = None
    confidence: float | None = None
    input: str = ""
    output: str = ""
    decision: str = ""
    reasoning: str = ""
    outcome: str = ""
    error: Mapping[str, Any] | None = None
    decisions: Sequence[Mapping[str, Any]] | None = None
    children: int = 0


@dataclass(frozen=True, slots=True)
class OutlineStep:
    """A step in outline: what a picture of a run needs of it."""

    id: str
    depth: int
    kind: str
    name: str
    status: str
    agent: str
    offset_ms: float
    duration_ms: float | None
    attempt: int | None
    tokens: int | None
    cost_usd: float | None
    confidence: float | None
    children: int
    clock_shift_ms: float | None


class Outline(Model):
    """The steps of a long run: lists of equal length, one a field, each step behind its parent."""

    id: tuple[str, ...]
    depth: tuple[int, ...]
    kind: tuple[str, ...]
    name: tuple[str, ...]
    status: tuple[str, ...]
    agent: tuple[str, ...]
    offset_ms: tuple[float, ...]
    duration_ms: tuple[float | None, ...]
    attempt: tuple[int | None, ...]
    tokens: tuple[int | None, ...]
    cost_usd: tuple[float | None, ...]
    confidence: tuple[float | None, ...]
    children: tuple[int, ...]
    clock_shift_ms: tuple[float | None, ...]

    def __len__(self) -> int:
        """How many steps there are."""
        return len(self.id)

    def steps(self) -> Iterator[OutlineStep]:
        """One step after the other."""
        columns = [getattr(self, each.name) for each in fields(OutlineStep)]
        return itertools.starmap(OutlineStep, zip(*columns, strict=True))


class StepAlone(Model):
    """A step without the run around it."""

    trace_id: str
    step: TreeStep
    events: tuple[Mapping[str, Any], ...] = ()
    """As they were sent, up to 200."""


class Trace(Model):
    """A run as a tree."""

    trace_id: str
    state: str | None = None
    time: datetime | None = None
    parent_trace_id: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    steps: tuple[TreeStep, ...] = ()
    outline: Outline | None = None
    """Instead of `steps`, where there are more than `outline_above`."""
    chains: tuple[Mapping[str, Any], ...] = ()
    summary: Mapping[str, Any] = {}


class Completeness(Model):
    """Whether all of a run is here, and what is missing."""

    trace_id: str
    verdict: str
    """`complete`, `incomplete`, `open` or `unknown`."""
    events: int = 0
    spans: int = 0
    missing: int = 0
    duplicates: int = 0
    unnumbered: int = 0
    in_queue: Mapping[str, Any] | None = None
    emitters: tuple[Mapping[str, Any], ...] = ()
    clocks: tuple[Mapping[str, Any], ...] = ()


class RunState(Model):
    """How a run was at a moment."""

    trace_id: str
    at: datetime | None = None
    offset_ms: float | None = None
    state: str | None = None
    under_way: int = 0
    finished: int = 0
    to_come: int = 0
    events_so_far: int = 0
    errors_so_far: int = 0
    tokens: int | None = None
    cost_usd: float | None = None
    steps: tuple[TreeStep, ...] = ()
    decisions: tuple[Mapping[str, Any], ...] = ()
    last_events: tuple[Mapping[str, Any], ...] = ()


class Difference(Model):
    """A step that is added, removed or changed from one run to the other."""

    change: str
    """`added`, `removed`, `changed`, or `same`."""
    what: str | None = None
    """The first field that differs."""
    depth: int = 0
    kind: str = ""
    name: str = ""
    agent: str | None = None
    a: str | None = None
    b: str | None = None
    offset_ms: float | None = None
    fields: Mapping[str, Any] = {}
    duration_ms: Mapping[str, float | None] = {}
    tokens: Mapping[str, float | None] = {}
    cost_usd: Mapping[str, float | None] = {}


class Diff(Model):
    """Two runs compared."""

    a: Mapping[str, Any]
    b: Mapping[str, Any]
    same: bool
    first_difference: Difference | None = None
    counts: Mapping[str, int] = {}
    totals: Mapping[str, Mapping[str, float | None]] = {}
    steps: tuple[Difference, ...] = ()
    truncated: bool = False
    fork: Mapping[str, Any] | None = None
    """If one is a branch of the other: `branch`, `of`, at which call (`at`), and `overrides`."""


class Replayable(Model):
    """Whether a run can be re-executed, and what came of it when it was."""

    trace_id: str
    replayable: str
    """`yes`, `partly` or `no`."""
    recorded: bool = False
    reasons: tuple[str, ...] = ()
    """Why not, or only partly."""
    calls: int = 0
    """Calls that a re-execution serves."""
    entry: str | None = None
    command: str | None = None
    forked_from: Mapping[str, Any] | None = None
    replays: tuple[Mapping[str, Any], ...] = ()
    """Re-executions, each with its `divergences`; those with a `branch` made a run of their own."""
    branches: Mapping[str, Any] | None = None
    """The tree of branches that the run is in: `trace_id`, `name`, `at`, `overrides`, `branches`."""


class Session(Model):
    """A conversation as it is listed."""

    session_id: str
    name: str | None = None
    first_prompt: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    turns: int = 0
    failed_turns: int = 0
    errors: int = 0
    tokens: int | None = None
    cost_usd: float | None = None
    users: tuple[str, ...] = ()
    last_trace_id: str | None = None


class SessionPage(Model):
    """A page of conversations, the one active last first."""

    sessions: tuple[Session, ...]
    next: str | None = None


class Turn(Run):
    """One run of a conversation: what was asked and answered, and the rounds in between."""

    answer: str | None = None
    rounds: tuple[Mapping[str, Any], ...] = ()


class Conversation(Model):
    """A conversation with its turns, the oldest first."""

    session_id: str
    users: tuple[str, ...] = ()
    turns: tuple[Turn, ...] = ()
    truncated: bool = False


class Agent(Model):
    """What an agent did over a window."""

    agent: str
    executions: int = 0
    executions_per_minute: float | None = None
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    error_rate: float | None = None
    retries: int = 0
    fallbacks: int = 0
    decisions: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    tokens: int | None = None
    cost_usd: float | None = None
    latency: Mapping[str, Any] = {}
    confidence: Mapping[str, Any] = {}
    errors: Mapping[str, int] = {}
    models: Mapping[str, int] = {}


class AgentPage(Model):
    """Agents over a window, the busiest first."""

    agents: tuple[Agent, ...]
    window: Mapping[str, Any] = {}


class Deleted(Model):
    """What a deletion took away."""

    status: str
    trace_id: str | None = None
    user_id: str | None = None
    traces: int | None = None
    """How many runs, where they were of a user."""
    rows: Mapping[str, int] = {}
    """How many rows of each table."""
    late_until: datetime | None = None
    """What comes late is dropped until then."""


class Score(Model):
    """What somebody thinks of a run or a step."""

    id: str
    trace_id: str
    name: str
    value: float | bool | str | None = None
    value_type: str = ""
    span_id: str | None = None
    execution_id: str | None = None
    agent_name: str | None = None
    comment: str | None = None
    source: str | None = None
    author: str | None = None
    updated_at: datetime | None = None


class ScorePage(Model):
    """A page of scores, the newest first."""

    scores: tuple[Score, ...]
    next: int | None = None


class ScoreAverage(Model):
    """The scores of one name and agent, together."""

    name: str
    agent_name: str | None = None
    scores: int = 0
    average: float | None = None
    min: float | None = None
    max: float | None = None
    categories: Mapping[str, int] = {}


class Column(Model):
    """A column of an answer in SQL, with its ClickHouse type."""

    name: str
    type: str


class SqlAnswer(Model):
    """Rows of a question in SQL."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    row_count: int = 0
    limit_reached: bool = False

    def dicts(self) -> list[dict[str, Any]]:
        """Each row by the names of its columns."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]
