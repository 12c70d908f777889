"""Scores of runs and sessions: list, and averages per agent."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tracereel._redact.event_redaction import owner_key
from tracereel_collector.query.filters import WIDEST, words_of
from tracereel_collector.query.store_reader import StoreReader, read_rows, shown_row
from tracereel_collector.store.sql import query

MAX_LISTED: Final = 1_000
MAX_AVERAGES: Final = 1_000
LATEST: Final = 2**63 - 1


class _ScoreRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `scores.sql`, in column order."""

    id: str
    trace_id: str
    session_id: str
    span_id: str
    execution_id: str
    agent_name: str
    name: str
    value_type: str
    number: float | None
    category: str
    comment: str
    source: str
    author: str
    updated_at: str
    sequence_number: int


class _Average(
    msgspec.Struct,
    array_like=True,
    frozen=True,
    gc=False,
    rename={"lowest": "min", "highest": "max"},
):
    """Row of `score_averages.sql`."""

    agent_name: str
    name: str
    scores: int
    average: float | None
    lowest: float | None
    highest: float | None
    categories: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreFilter:
    """Score filter; empty fields match everything."""

    trace_id: str = ""
    session_id: str = ""
    name: str = ""
    agent: str = ""
    source: str = ""
    author: str = ""
    category: str = ""
    text: str = ""
    """Words that must all occur in the comment."""
    low: float | None = None
    high: float | None = None

    def parameters(self, tenant: str) -> dict[str, Any]:
        """Return the query parameters."""
        return {
            "tenant": tenant,
            "trace_id": self.trace_id,
            "session_key": owner_key(self.session_id) if self.session_id else "",
            "name": self.name,
            "agent": self.agent,
            "source": self.source,
            "author": self.author,
            "category": self.category,
            "words": words_of(self.text),
            "bounded": int(self.low is not None or self.high is not None),
            "min": -WIDEST if self.low is None else self.low,
            "max": WIDEST if self.high is None else self.high,
        }


@dataclass(frozen=True, slots=True)
class Scores:
    """Queries of `GET /v1/scores` and `GET /v1/scores/averages`."""

    store: StoreReader

    def document(
        self, tenant: str, wanted: ScoreFilter, *, before: int | None, limit: int
    ) -> bytes:
        """Return the scores as JSON, newest first; pass `next` as `before` to continue."""
        given = {**wanted.parameters(tenant), "before": before or LATEST, "limit": limit}
        rows = read_rows(self.store, query("scores"), _ScoreRow, **given)
        following = rows[-1].sequence_number if len(rows) == limit else None
        return msgspec.json.encode({"scores": [_shown(row) for row in rows], "next": following})

    def averages(self, tenant: str, wanted: ScoreFilter) -> bytes:
        """Return count, mean, minimum, maximum and category counts per agent and score name."""
        given = {**wanted.parameters(tenant), "limit": MAX_AVERAGES}
        rows = read_rows(self.store, query("score_averages"), _Average, **given)
        return msgspec.json.encode({"averages": [shown_row(row) for row in rows]})


def _shown(row: _ScoreRow) -> dict[str, Any]:
    values = {"boolean": bool(row.number), "categorical": row.category}
    shown = shown_row(row, value=values.get(row.value_type, row.number))
    for name in ("number", "category", "sequence_number"):
        del shown[name]
    return shown
