"""Question and answer of recorded runs, for lists, where their summaries describe objects."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tracereel import semconv
from tracereel.content import ValueContent
from tracereel_collector.query.content.from_events import content_of_events, decoded
from tracereel_collector.query.content.questions import Said
from tracereel_collector.query.event_contents import EventContents, StoredPayload
from tracereel_collector.query.store_reader import StoreReader, read_rows
from tracereel_collector.store.rollups import CLOSING, MAX_PROMPT
from tracereel_collector.store.sql import query

MAX_RUNS: Final = 100
"""Runs of one list that are read."""
_MAX_BYTES: Final = 4 * 1024 * 1024
"""Content that is read for one list; of the other runs, the summaries stay."""
_PIPELINES: Final = [semconv.PIPELINE_STARTED, semconv.PIPELINE_COMPLETED]
_EXECUTIONS: Final = [semconv.EXECUTION_STARTED, *CLOSING]
_DESCRIBED: Final = re.compile(r"(?:[A-Za-z_][\w.]{0,100}\(|[\[{(<])")
"""Beginning of the description of an object: `Booking(…`, `{'answer': …`, `[…`."""


def add_texts(
    store: StoreReader,
    tenant: str,
    rows: Sequence[dict[str, Any]],
    *,
    run: str = "trace_id",
    asked: str = "prompt",
    answered: str = "answer",
) -> None:
    """Replace descriptions of objects in rows of a list by the question and answer in the content."""
    described = {
        row[run]: row
        for row in rows
        if row[run] and (_is_described(row[asked]) or _is_described(row[answered]))
    }
    found = _texts(store, tenant, list(described)[:MAX_RUNS])
    for name, said in found.items():
        row = described[name]
        if said.asked and _is_described(row[asked]):
            row[asked] = said.asked
        if said.answered and _is_described(row[answered]):
            row[answered] = said.answered


def _is_described(text: str | None) -> bool:
    return text is not None and _DESCRIBED.match(text) is not None


def _texts(store: StoreReader, tenant: str, runs: Sequence[str]) -> dict[str, Said]:
    if not runs:
        return {}
    given = {"tenant": tenant, "runs": runs}
    places = read_rows(
        *(store, query("asked_events"), tuple[str, int, int]),
        **given,
        pipelines=_PIPELINES,
        executions=_EXECUTIONS,
    )
    numbers = sorted({number for place in places for number in place[1:] if number})
    rows = read_rows(store, query("asked_payloads"), tuple[str, int, str], **given, numbers=numbers)
    stored = [StoredPayload(number, payload) for _, number, payload in rows]
    whole = EventContents(store, max_bytes=_MAX_BYTES).whole(tenant, stored)
    events: dict[str, list[Mapping[str, Any]]] = {}
    for (trace_id, *_), payload in zip(rows, whole, strict=True):
        events.setdefault(trace_id, []).append(decoded(payload))
    return {name: _said(listed) for name, listed in events.items()}


def _said(events: Sequence[Mapping[str, Any]]) -> Said:
    content = content_of_events("pipeline", events)
    if not isinstance(content, ValueContent):
        return Said()
    asked = content.asked or _fields(content.input)
    answered = content.answered or _fields(content.output)
    return Said(asked[:MAX_PROMPT], answered[:MAX_PROMPT])


def _fields(value: Any) -> str:
    """Return the fields of an object that have a value, as text."""
    fields = value.items() if isinstance(value, dict) else ()
    plain = (str, int, float)
    return ", ".join(f"{name}: {each}" for name, each in fields if isinstance(each, plain))
