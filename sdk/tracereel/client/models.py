"""Models of the collector's responses; unknown fields are kept."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from tracereel.content import Content


class Model(BaseModel):
    """Base of response models: frozen, accepts unknown fields."""

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of a timeline, or one record of a live stream."""

    time: str
    event: str
    details: Mapping[str, Any]
    """Event as it was sent, with the fields that the collector added."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the entry: offsets, durations, its step."""

    @classmethod
    def of(cls, entry: dict[str, Any]) -> "Step":
        """Read an entry as the collector sends it."""
        more = {key: value for key, value in entry.items() if key not in _STEP_FIELDS}
        return cls(str(entry["time"]), str(entry["event"]), dict(entry["details"]), more)


_STEP_FIELDS: Final = frozenset({"time", "event", "details"})


@dataclass(frozen=True, slots=True)
class Replay:
    """Recorded run: events in causal order and a summary."""

    trace_id: str
    timeline: tuple[Step, ...]
    summary: Mapping[str, Any]
    raw: bytes
    """Original response body."""
    next: str | None = None
    """Position of the next page; None on the last one."""


class Run(Model):
    """Run in a search result."""

    trace_id: str
    name: str | None = None
    status: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    duration_ms: float | None = None
    prompt: str | None = None
    answer: str | None = None
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
    unpriced_tokens: int = 0
    unpriced_models: tuple[str, ...] = ()
    lowest_confidence: float | None = None
    passage: str | None = None
    """Text around the first hit of a text search."""


class RunAsked(Model):
    """Last question and answer of a run, from its spans."""

    trace_id: str
    asked: str | None = None
    answered: str | None = None


class AskedPage(Model):
    """Questions and answers of runs."""

    runs: tuple[RunAsked, ...]


class RunPage(Model):
    """Page of search results."""

    traces: tuple[Run, ...]
    next: str | None = None
    """Cursor of the next page; None on the last one."""
    facets: Any = None
    histogram: Any = None


class TreeStep(Model):
    """Step of a run's tree, located by `depth` and `parent_id`."""

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
    """Short form of a step, enough to draw a run."""

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
    """Steps of a long run in columns of equal length; parents come first."""

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
        """Return the number of steps."""
        return len(self.id)

    def steps(self) -> Iterator[OutlineStep]:
        """Yield the steps."""
        columns = [getattr(self, each.name) for each in fields(OutlineStep)]
        return itertools.starmap(OutlineStep, zip(*columns, strict=True))


class StepAnswer(Model):
    """Content of a step."""

    content: Content


class StepAlone(Model):
    """Step without the rest of its run."""

    trace_id: str
    step: TreeStep
    events: tuple[Mapping[str, Any], ...] = ()
    """Events as they were sent, up to 200."""


class Trace(Model):
    """Run as a tree."""

    trace_id: str
    name: str | None = None
    state: str | None = None
    time: datetime | None = None
    parent_trace_id: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    steps: tuple[TreeStep, ...] = ()
    outline: Outline | None = None
    """Steps in short form, instead of `steps`, if there are more than `outline_above`."""
    chains: tuple[Mapping[str, Any], ...] = ()
    summary: Mapping[str, Any] = {}


class Completeness(Model):
    """Completeness of a run, and its missing events."""

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
    """State of a run at a point in time."""

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
    """Step that was added, removed or changed between two runs."""

    change: str
    """`added`, `removed`, `changed`, or `same`."""
    what: str | None = None
    """First field that differs."""
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
    """Comparison of two runs."""

    a: Mapping[str, Any]
    b: Mapping[str, Any]
    same: bool
    first_difference: Difference | None = None
    counts: Mapping[str, int] = {}
    totals: Mapping[str, Mapping[str, float | None]] = {}
    steps: tuple[Difference, ...] = ()
    truncated: bool = False
    unread: int = 0
    """Steps of which only the beginning of the content was compared."""
    fork: Mapping[str, Any] | None = None
    """Fork point if one run is a branch of the other: `branch`, `of`, call (`at`), `overrides`."""


class Replayable(Model):
    """Whether a run can be re-executed, and its past re-executions."""

    trace_id: str
    replayable: str
    """`yes`, `partly` or `no`."""
    recorded: bool = False
    reasons: tuple[str, ...] = ()
    """Reasons for `no` or `partly`."""
    calls: int = 0
    """Number of calls that a re-execution serves from the tape."""
    entry: str | None = None
    command: str | None = None
    forked_from: Mapping[str, Any] | None = None
    replays: tuple[Mapping[str, Any], ...] = ()
    """Re-executions with their `divergences`; those with a `branch` created a new run."""
    branches: Mapping[str, Any] | None = None
    """Tree of the run's branches: `trace_id`, `name`, `at`, `overrides`, `branches`."""
    other_emitters: tuple[str, ...] = ()
    """Processes with a separate tape for this run, beside the root tape."""


class ShortScore(Model):
    """Score in a list of runs or sessions."""

    name: str
    value: float | bool | str | None = None
    comment: str | None = None


class Session(Model):
    """Session in a list."""

    session_id: str
    name: str | None = None
    first_prompt: str | None = None
    asked: str | None = None
    """Question of the last turn."""
    answered: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    turns: int = 0
    failed_turns: int = 0
    errors: int = 0
    tokens: int | None = None
    cost_usd: float | None = None
    unpriced_tokens: int = 0
    unpriced_models: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    last_trace_id: str | None = None
    scores: tuple[ShortScore, ...] = ()
    """Newest scores of the session itself."""


class SessionPage(Model):
    """Page of sessions, the most recently active first."""

    sessions: tuple[Session, ...]
    next: str | None = None


class Turn(Run):
    """One run of a session: prompt, response, and the rounds in between."""

    rounds: tuple[Mapping[str, Any], ...] = ()


class Conversation(Model):
    """Session with its turns, the oldest first."""

    session_id: str
    users: tuple[str, ...] = ()
    scores: tuple[ShortScore, ...] = ()
    """Newest scores of the session itself."""
    turns: tuple[Turn, ...] = ()
    truncated: bool = False


class Agent(Model):
    """Statistics of an agent over a time window."""

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
    unpriced_tokens: int = 0
    unpriced_models: tuple[str, ...] = ()
    latency: Mapping[str, Any] = {}
    confidence: Mapping[str, Any] = {}
    errors: Mapping[str, int] = {}
    models: Mapping[str, int] = {}


class AgentPage(Model):
    """Agents over a time window, the busiest first."""

    agents: tuple[Agent, ...]
    window: Mapping[str, Any] = {}


class Deleted(Model):
    """Result of a deletion."""

    status: str
    trace_id: str | None = None
    user_id: str | None = None
    traces: int | None = None
    """Number of deleted runs, if a user was deleted."""
    rows: Mapping[str, int] = {}
    """Number of deleted rows per table."""
    late_until: datetime | None = None
    """Time until which late events are dropped."""


class Score(Model):
    """Score of a run, a step or a session."""

    id: str
    trace_id: str | None = None
    session_id: str | None = None
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
    """Page of scores, the newest first."""

    scores: tuple[Score, ...]
    next: int | None = None


class ScoreAverage(Model):
    """Aggregated scores of one name and agent."""

    name: str
    agent_name: str | None = None
    scores: int = 0
    average: float | None = None
    min: float | None = None
    max: float | None = None
    categories: Mapping[str, int] = {}


class Column(Model):
    """Column of an SQL result, with its ClickHouse type."""

    name: str
    type: str


class SqlAnswer(Model):
    """Result of an SQL query."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    row_count: int = 0
    limit_reached: bool = False

    def dicts(self) -> list[dict[str, Any]]:
        """Return each row as a dictionary by column name."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]
