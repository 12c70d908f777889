"""Scores of runs: list, and averages per agent."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tracereel_collector.query.filters import words_of
from tracereel_collector.query.scored import WIDEST
from tracereel_collector.query.store_reader import StoreReader
from tracereel_collector.store.sql import query

MAX_LISTED: Final = 1_000
MAX_AVERAGES: Final = 1_000
LATEST: Final = 2**63 - 1


class _ScoreRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `scores.sql`, in column order."""

    id: str
    trace_id: str
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


class _Average(msgspec.Struct, array_like=True, frozen=True, gc=False):
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
        answer = self.store.select(
            query("scores"),
            {**wanted.parameters(tenant), "before": before or LATEST, "limit": limit},
            fmt="JSONCompactEachRow",
        )
        rows: list[_ScoreRow] = msgspec.json.Decoder(_ScoreRow).decode_lines(answer)
        following = rows[-1].sequence_number if len(rows) == limit else None
        return msgspec.json.encode({"scores": [_shown(row) for row in rows], "next": following})

    def averages(self, tenant: str, wanted: ScoreFilter) -> bytes:
        """Return count, mean, minimum, maximum and category counts per agent and score name."""
        answer = self.store.select(
            query("score_averages"),
            {**wanted.parameters(tenant), "limit": MAX_AVERAGES},
            fmt="JSONCompactEachRow",
        )
        rows: list[_Average] = msgspec.json.Decoder(_Average).decode_lines(answer)
        return msgspec.json.encode(
            {
                "averages": [
                    {
                        "agent_name": row.agent_name or None,
                        "name": row.name,
                        "scores": row.scores,
                        "average": row.average,
                        "min": row.lowest,
                        "max": row.highest,
                        "categories": row.categories,
                    }
                    for row in rows
                ]
            }
        )


def _shown(row: _ScoreRow) -> dict[str, Any]:
    value: Any = row.number
    if row.value_type == "boolean":
        value = bool(row.number)
    elif row.value_type == "categorical":
        value = row.category
    return {
        "id": row.id,
        "trace_id": row.trace_id,
        "span_id": row.span_id or None,
        "execution_id": row.execution_id or None,
        "agent_name": row.agent_name or None,
        "name": row.name,
        "value": value,
        "value_type": row.value_type,
        "comment": row.comment or None,
        "source": row.source or None,
        "author": row.author or None,
        "updated_at": row.updated_at,
    }
