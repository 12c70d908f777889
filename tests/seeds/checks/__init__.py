"""All checks of the suite; importing this package registers them."""

from tests.seeds.checks import (
    backend,
    card,
    events,
    logs,
    metrics,
    replay,
    results,
    spans,
    sse,
    streams,
    users_tests,
)
from tests.seeds.registry import CHECKS, WITH_COLLECTOR

__all__ = [
    "CHECKS",
    "WITH_COLLECTOR",
    "backend",
    "card",
    "events",
    "logs",
    "metrics",
    "replay",
    "results",
    "spans",
    "sse",
    "streams",
    "users_tests",
]
