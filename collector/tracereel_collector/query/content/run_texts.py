"""Question and answer of recorded runs, for lists, where their summaries do not have them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tracereel import semconv
from tracereel.content import ValueContent, answered, asked
from tracereel_collector.query.content.from_events import (
    call_messages,
    content_of_events,
    decoded,
)
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
_ANSWERED: Final = ("success", "partial_success")
_NOTHING: Final = "None"
"""Description of the result of a function, or of a block, that returns nothing."""
_DESCRIBED: Final = re.compile(
    r"(?:[A-Za-z_][\w.]{0,100}\(|[\[{(<]|[A-Za-z_]\w{0,60}: (?:['\"\[{(<\d-]|True\b|False\b|None\b))"
)
"""Beginning of the description of an object or of arguments: `Booking(…`, `[…`, `place: 'Lima'`."""


def add_texts(
    store: StoreReader,
    tenant: str,
    rows: Sequence[dict[str, Any]],
    *,
    run: str = "trace_id",
    asked: str = "prompt",
    answered: str = "answer",
    status: str = "status",
) -> None:
    """Put question and answer into rows of a list that lack them, or have descriptions of objects.

    They are those of the run itself, else of its first and its last model call. A run that did not succeed
    is not answered by a model.
    """
    questions = {row[run] for row in rows if _is_lacking(row[asked])}
    answers = {row[run] for row in rows if _lacks_answer(row[answered], row[status])}
    lacking = [row[run] for row in rows if row[run] and row[run] in questions | answers]
    found = _texts(store, tenant, lacking[:MAX_RUNS])
    for row in rows:
        said = found.get(row[run], Said())
        if said.asked and row[run] in questions:
            row[asked] = said.asked
        if said.answered and row[run] in answers:
            row[answered] = said.answered
        elif row[answered] == _NOTHING:
            row[answered] = None


def _lacks_answer(text: str | None, status: str) -> bool:
    if status in _ANSWERED:
        return _is_lacking(text)
    return bool(text) and text != _NOTHING and _is_lacking(text)


def _is_lacking(text: str | None) -> bool:
    return not text or text == _NOTHING or _DESCRIBED.match(text) is not None


def _texts(store: StoreReader, tenant: str, runs: Sequence[str]) -> dict[str, Said]:
    kinds = {"pipelines": _PIPELINES, "executions": _EXECUTIONS}
    outermost = _events(store, tenant, runs, "asked_events", **kinds)
    found = {name: _own(outermost.get(name, ())) for name in runs}
    lacking = [name for name, said in found.items() if not (said.asked and said.answered)]
    for name, calls in _events(store, tenant, lacking, "asked_calls").items():
        inside = _of_calls(calls)
        own = found[name]
        found[name] = Said(own.asked or inside.asked, own.answered or inside.answered)
    return found


def _events(
    store: StoreReader, tenant: str, runs: Sequence[str], places: str, **given: Any
) -> dict[str, list[Mapping[str, Any]]]:
    """Return the events of runs that a query gives the numbers of, in causal order."""
    if not runs:
        return {}
    wanted = {"tenant": tenant, "runs": runs}
    numbered = read_rows(store, query(places), tuple[str, int, int], **wanted, **given)
    numbers = sorted({number for place in numbered for number in place[1:] if number})
    rows = read_rows(
        store, query("asked_payloads"), tuple[str, int, str], **wanted, numbers=numbers
    )
    stored = [StoredPayload(number, payload) for _, number, payload in rows]
    whole = EventContents(store, max_bytes=_MAX_BYTES).whole(tenant, stored)
    found: dict[str, list[Mapping[str, Any]]] = {name: [] for name, *_ in numbered}
    for (trace_id, *_), payload in zip(rows, whole, strict=True):
        found.setdefault(trace_id, []).append(decoded(payload))
    return found


def _own(events: Sequence[Mapping[str, Any]]) -> Said:
    content = content_of_events("pipeline", events)
    if not isinstance(content, ValueContent):
        return Said()
    return _shortened(
        content.asked or _fields(content.input), content.answered or _fields(content.output)
    )


def _of_calls(calls: Sequence[Mapping[str, Any]]) -> Said:
    if not calls:
        return Said()
    given, _ = call_messages(calls[0])
    _, said = call_messages(calls[-1])
    return _shortened(
        asked([each.model_dump() for each in given.messages]),
        answered([each.model_dump() for each in said.messages]),
    )


def _shortened(question: str | None, answer: str | None) -> Said:
    return Said((question or "")[:MAX_PROMPT] or None, (answer or "")[:MAX_PROMPT] or None)


def _fields(value: Any) -> str:
    """Return the fields of an object that have a value, as text."""
    fields = value.items() if isinstance(value, dict) else ()
    plain = (str, int, float)
    return ", ".join(f"{name}: {each}" for name, each in fields if isinstance(each, plain))
