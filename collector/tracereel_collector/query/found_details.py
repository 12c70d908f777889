"""Details of runs and sessions that a search found: executions, passages, scores."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tracereel._redact.event_redaction import owner_key
from tracereel_collector.query.filters import phrases_and_words, words_of
from tracereel_collector.query.passages import readable
from tracereel_collector.query.store_reader import StoreReader, read_rows
from tracereel_collector.store.sql import query

MAX_EXECUTIONS = 100
MAX_SCORES = 20
MAX_PASSAGES: Final = 100
"""Runs of one response that get a passage."""
PASSAGE_CHARACTERS: Final = 240
_BEFORE: Final = 24
"""Characters of a passage before its first hit."""


Run = dict[str, Any]


class _RunScore(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `run_scores.sql`."""

    trace_id: str
    name: str
    value_type: str
    number: float | None
    category: str
    of_step: bool


def add_executions(store: StoreReader, tenant: str, runs: Sequence[Run], most: int) -> None:
    """Add the first executions of each run; runs known only from spans have none."""
    by_run: dict[str, list[dict[str, str]]] = {run["trace_id"]: [] for run in runs}
    if by_run:
        given = {"tenant": tenant, "runs": list(by_run), "most": most}
        rows = read_rows(store, query("run_executions"), tuple[str, str, str], **given)
        for run_id, agent, status in rows:
            by_run[run_id].append({"agent": agent, "status": status})
    for run in runs:
        run["executions"] = by_run[run["trace_id"]]


class _SessionScore(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `session_scores.sql`."""

    session_key: str
    name: str
    value_type: str
    number: float | None
    category: str
    comment: str


def scores_of_sessions(
    store: StoreReader, tenant: str, sessions: Sequence[str], most: int
) -> dict[str, list[dict[str, Any]]]:
    """Return the newest scores of each session itself, by its id in the form that was given."""
    keys = {name: owner_key(name) for name in sessions}
    by_key: dict[str, list[dict[str, Any]]] = {key: [] for key in keys.values()}
    if by_key:
        given = {"tenant": tenant, "sessions": list(by_key), "most": most}
        for row in read_rows(store, query("session_scores"), _SessionScore, **given):
            by_key[row.session_key].append(
                {"name": row.name, "value": _value(row), "comment": row.comment or None}
            )
    return {name: by_key[key] for name, key in keys.items()}


def add_scores(store: StoreReader, tenant: str, runs: Sequence[Run], most: int) -> None:
    """Add the newest scores of each run and its steps."""
    by_run: dict[str, list[dict[str, Any]]] = {run["trace_id"]: [] for run in runs}
    if by_run:
        given = {"tenant": tenant, "runs": list(by_run), "most": most}
        for row in read_rows(store, query("run_scores"), _RunScore, **given):
            score = {"name": row.name, "value": _value(row), "of_step": row.of_step}
            by_run[row.trace_id].append(score)
    for run in runs:
        run["scores"] = by_run[run["trace_id"]]


def add_passages(
    store: StoreReader,
    tenant: str,
    runs: Sequence[Run],
    text: str,
    *,
    first_hour: str,
    last_hour: str,
) -> None:
    """Add the passage with the searched words to each run; null if none was found in reach."""
    phrases, words = phrases_and_words(text)
    owners = {
        trace: run["trace_id"]
        for run in runs[:MAX_PASSAGES]
        for trace in (*run["otel_trace_ids"], run["trace_id"])
    }
    found: dict[str, str] = {}
    if owners:
        rows = read_rows(
            *(store, query("search_passages"), tuple[str, str]),
            tenant=tenant,
            traces=list(owners),
            words=words,
            phrases=phrases,
            tokens=words_of(text),
            before=_BEFORE,
            length=PASSAGE_CHARACTERS,
            first_hour=first_hour,
            last_hour=last_hour,
        )
        for trace, passage in rows:
            # The run's own events take precedence over spans of others.
            if trace == owners[trace] or owners[trace] not in found:
                found[owners[trace]] = readable(passage, [*words, *phrases])
    for run in runs:
        run["passage"] = found.get(run["trace_id"])


def _value(row: _RunScore | _SessionScore) -> float | bool | str | None:
    values: dict[str, float | bool | str | None] = {
        "boolean": bool(row.number),
        "categorical": row.category,
    }
    return values.get(row.value_type, row.number)
