"""Client for the collector: replay, search, live tail, scores, deletion, export and SQL.

Sync and async. `from tracereel.client import Client` needs only the base install.
"""

from tracereel.client.aio import AsyncClient, AsyncEventStream
from tracereel.client.errors import (
    AccessDeniedError,
    ClientError,
    CollectorUnavailableError,
    ConnectionLostError,
    InvalidRequestError,
    NotFoundError,
    TraceNotFoundError,
    UnexpectedAnswerError,
)
from tracereel.client.execution_replay import AgentExecutionReplay
from tracereel.client.models import (
    Agent,
    AgentPage,
    Completeness,
    Conversation,
    Deleted,
    Diff,
    Difference,
    Outline,
    OutlineStep,
    Replay,
    Replayable,
    Run,
    RunAsked,
    RunPage,
    RunState,
    Score,
    ScoreAverage,
    ScorePage,
    Session,
    SessionPage,
    ShortScore,
    SqlAnswer,
    Step,
    StepAlone,
    Trace,
    TreeStep,
    Turn,
)
from tracereel.client.streams import EventStream
from tracereel.client.sync import Client
from tracereel.client.transport import DEFAULT_TIMEOUT, Answer

ReplayClient = Client
"""Former name of `Client`."""

__all__ = [
    "DEFAULT_TIMEOUT",
    "AccessDeniedError",
    "Agent",
    "AgentExecutionReplay",
    "AgentPage",
    "Answer",
    "AsyncClient",
    "AsyncEventStream",
    "Client",
    "ClientError",
    "CollectorUnavailableError",
    "Completeness",
    "ConnectionLostError",
    "Conversation",
    "Deleted",
    "Diff",
    "Difference",
    "EventStream",
    "InvalidRequestError",
    "NotFoundError",
    "Outline",
    "OutlineStep",
    "Replay",
    "ReplayClient",
    "Replayable",
    "Run",
    "RunAsked",
    "RunPage",
    "RunState",
    "Score",
    "ScoreAverage",
    "ScorePage",
    "Session",
    "SessionPage",
    "ShortScore",
    "SqlAnswer",
    "Step",
    "StepAlone",
    "Trace",
    "TraceNotFoundError",
    "TreeStep",
    "Turn",
    "UnexpectedAnswerError",
]
