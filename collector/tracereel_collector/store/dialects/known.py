"""Names of attributes that some dialect reads, or that every OpenTelemetry span may have."""

import re
from collections.abc import Iterator
from typing import Final

from tracereel_collector.store.dialects import content
from tracereel_collector.store.dialects.columns import array
from tracereel_collector.store.dialects.content import Numbered
from tracereel_collector.store.dialects.names import DIRECT_KINDS, SLOTS

ORDINARY: Final = (
    *("client.", "server.", "network.", "net.", "peer.", "http.", "url.", "user_agent.", "rpc."),
    *("code.", "thread.", "process.", "exception.", "error.", "db.", "telemetry.", "otel."),
    *("service.", "deployment.", "host.", "k8s.", "cloud.", "container."),
)
"""Prefixes of OpenTelemetry's names that are not about agents."""
SEEN: Final = (
    *("logfire.", "langsmith.metadata.", "traceloop.association.properties.", "lmnr.span."),
    *("metadata.", "input.mime_type", "output.mime_type", "gen_ai.usage.details.", "gen_ai.cost."),
    *("gen_ai.aggregated_usage.details.", "llm.token_count.", "llm.openai.", "ai.settings."),
    *("ai.request.headers.", "operation.name", "resource.name", "gen_ai.tool.", "tool."),
)
"""Prefixes of names of known dialects, most of which have no column."""
KINDS: Final = (*DIRECT_KINDS, "tool", "agent", "other")
"""Kinds of spans whose names are looked at."""


def _names(value: object) -> Iterator[str | Numbered]:
    if isinstance(value, str | Numbered):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _names(each)
    elif isinstance(value, dict):
        yield from _names(tuple(value))


_OF_CONTENT: Final = tuple(
    name
    for constant, value in sorted(vars(content).items())
    if constant.isupper()
    for name in _names(value)
)
_PREFIXES: Final = (
    *ORDINARY,
    *SEEN,
    *(each.prefix for each in _OF_CONTENT if isinstance(each, Numbered)),
    *content.PARAMETER_PREFIXES,
)

FRAGMENTS: Final = {
    "known_names": array(
        sorted(
            {name for names in SLOTS.values() for name in names}
            | {each for each in _OF_CONTENT if isinstance(each, str)}
        )
    ),
    "known_prefixes": repr(f"^({'|'.join(re.escape(each) for each in _PREFIXES)})"),
    "looked_at_kinds": array(KINDS),
}
"""Values of `$name` in `unread_names.sql`."""
