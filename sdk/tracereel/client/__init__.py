"""Ask a collector from code: replay, search, watch live, score, delete, export, SQL; sync and async.

`from tracereel.client import Client` needs nothing beyond the base install.
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
    Completeness,
    Replay,
    Run,
    RunPage,
    Score,
    ScoreAverage,
    ScorePage,
    SqlAnswer,
    Step,
    Trace,
    TreeStep,
)
from tracereel.client.streams import EventStream
from tracereel.client.sync import Client
from tracereel.client.transport import DEFAULT_TIMEOUT, Answer

ReplayClient = Client
"""The client's former name."""

__all__ = [
    "DEFAULT_TIMEOUT",
    "AccessDeniedError",
    "AgentExecutionReplay",
    "Answer",
    "AsyncClient",
    "AsyncEventStream",
    "Client",
    "ClientError",
    "CollectorUnavailableError",
    "Completeness",
    "ConnectionLostError",
    "EventStream",
    "InvalidRequestError",
    "NotFoundError",
    "Replay",
    "ReplayClient",
    "Run",
    "RunPage",
    "Score",
    "ScoreAverage",
    "ScorePage",
    "SqlAnswer",
    "Step",
    "Trace",
    "TraceNotFoundError",
    "TreeStep",
    "UnexpectedAnswerError",
]
