"""`/v1/traces`: search runs, read one, its content and completeness, get tapes, compare two."""

import time
from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import Query, Request
from fastapi.responses import RedirectResponse, Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.errors import BadRequestError
from tracereel_collector.http.dependencies import Parts, parts_of, query, query_json
from tracereel_collector.http.parameters import (
    Attempts,
    From,
    Number,
    ScoreValue,
    Text,
    Texts,
    To,
    attribute_pairs,
    check_range,
    ranges,
)
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.query.budgeted_tree import BYTES_PER_TOKEN, MIN_BYTES
from tracereel_collector.query.content.questions import MAX_RUNS as MAX_ASKED
from tracereel_collector.query.counting import FACETS
from tracereel_collector.query.filters import RANGES, Decided, Scored, TraceFilters
from tracereel_collector.query.found_details import MAX_EXECUTIONS, MAX_SCORES
from tracereel_collector.query.many_tapes import MAX_RUNS as MAX_TAPES
from tracereel_collector.query.replay import check_trace_id
from tracereel_collector.query.search import MAX_BUCKETS, MAX_RUNS, SearchQuery
from tracereel_collector.query.window import DAY, parse_window
from tracereel_collector.store.rollups import TAG_KINDS

router = ScopedRouter(KeyScope.READ)
DEFAULT_WINDOW = 7 * DAY
"""Default window of counts and of sort orders other than newest first."""
MAX_BUDGET = 64 * 1024 * 1024

Sort = Literal["started_at", "duration_ms", "cost_usd", "tokens", "events", "errors", "confidence"]


@router.get("/v1/traces", summary="Search runs")
async def get_traces(
    request: Request,
    from_: From = None,
    to: To = None,
    q: Text = None,
    status: Texts = None,
    agent: Texts = None,
    pipeline: Texts = None,
    model: Texts = None,
    provider: Texts = None,
    service: Texts = None,
    session: Texts = None,
    user: Texts = None,
    error: Texts = None,
    category: Texts = None,
    code: Texts = None,
    attribute: Texts = None,
    score: Texts = None,
    score_category: Texts = None,
    min_score: ScoreValue = None,
    max_score: ScoreValue = None,
    decision_type: Texts = None,
    decision_category: Texts = None,
    decision_agent: Texts = None,
    decision_chosen: Texts = None,
    min_decision_confidence: Number = None,
    max_decision_confidence: Number = None,
    below_threshold: bool = False,
    min_duration_ms: Number = None,
    max_duration_ms: Number = None,
    min_cost_usd: Number = None,
    max_cost_usd: Number = None,
    min_tokens: Number = None,
    max_tokens: Number = None,
    min_confidence: Number = None,
    max_confidence: Number = None,
    min_errors: Number = None,
    min_retries: Number = None,
    min_fallbacks: Number = None,
    sort: Sort = "started_at",
    order: Literal["asc", "desc"] = "desc",
    limit: Annotated[int, Query(ge=0, le=MAX_RUNS)] = 50,
    cursor: Text = None,
    facets: Text = None,
    histogram: Annotated[int, Query(ge=0, le=MAX_BUCKETS)] = 0,
    executions: Annotated[int, Query(ge=0, le=MAX_EXECUTIONS)] = 0,
    scores: Annotated[int, Query(ge=0, le=MAX_SCORES)] = 0,
) -> Response:
    """Search runs, newest first by default; pass `next` as `?cursor=` for the next page."""
    given = locals()
    least, most = ranges(given, RANGES)
    check_range(min_score, max_score, names=("min_score", "max_score"))
    decision_range = ("min_decision_confidence", "max_decision_confidence")
    check_range(min_decision_confidence, max_decision_confidence, names=decision_range)
    counted = _facets(facets)
    needs_window = bool(counted or histogram) or sort != "started_at" or order != "desc"
    question = SearchQuery(
        filters=TraceFilters(
            tags={kind: tuple(given[kind]) for kind in TAG_KINDS if given[kind]},
            statuses=tuple(status or ()),
            least=least,
            most=most,
            attributes=attribute_pairs(attribute),
            text=q or "",
            scored=Scored(
                names=tuple(score or ()),
                categories=tuple(score_category or ()),
                least=min_score,
                most=max_score,
            ),
            decided=Decided(
                types=tuple(decision_type or ()),
                categories=tuple(decision_category or ()),
                agents=tuple(decision_agent or ()),
                chosen=tuple(decision_chosen or ()),
                least=min_decision_confidence,
                most=max_decision_confidence,
                below_threshold=below_threshold,
            ),
        ),
        window=parse_window(
            from_, to, now=time.time_ns(), default=DEFAULT_WINDOW if needs_window else None
        ),
        sort=sort,
        order=order,
        limit=limit,
        cursor=cursor,
        facets=counted,
        buckets=histogram,
        executions=executions,
        scores=scores,
    )
    return await query_json(request, lambda parts, tenant: parts.search.document(tenant, question))


@router.get("/v1/asked", summary="Return the last question and answer of runs")
async def get_asked(
    request: Request,
    trace_id: Annotated[list[Annotated[str, Query(max_length=128)]], Query(max_length=MAX_ASKED)],
) -> Response:
    """Return the last question and answer of runs that are known from spans only."""
    return await query_json(
        request, lambda parts, tenant: parts.questions.document(tenant, trace_id)
    )


@router.get("/v1/traces/{trace_id}", summary="Read a run as a tree")
async def get_trace(
    request: Request,
    trace_id: str,
    *,
    step: str | None = None,
    alone: bool = False,
    outline_above: Annotated[int | None, Query(ge=0)] = None,
    budget_bytes: Annotated[int | None, Query(ge=MIN_BYTES, le=MAX_BUDGET)] = None,
    budget_tokens: Annotated[int | None, Query(ge=MIN_BYTES // 3, le=MAX_BUDGET // 3)] = None,
    linked: bool = True,
    attempts: Attempts = None,
) -> Response:
    """Return the `steps` of a run, each after its parent, including runs that it started.

    With `step`, only the steps below it, and its events; with `alone` too, only the step itself.
    Above `outline_above` steps, `outline` instead: the fields for a chart, by column. With a budget in
    bytes or model tokens, the most important parts that fit, and how to request more. With `attempts=all`,
    also attempts, retries and fallbacks in which nothing was retried or replaced.
    """
    check_trace_id(trace_id)
    limits = [budget_bytes, budget_tokens and budget_tokens * BYTES_PER_TOKEN]
    budget = min((each for each in limits if each is not None), default=None)
    return await query_json(
        request,
        lambda parts, tenant: parts.traces.document(
            tenant,
            trace_id,
            linked=linked,
            step_id=step,
            alone=alone,
            budget=budget,
            outline_above=outline_above,
            attempts=attempts is not None,
        ),
    )


@router.get("/v1/traces/{trace_id}/steps/{step_id}/content", summary="Read the content of a step")
async def get_content(
    request: Request, trace_id: str, step_id: str, *, raw: bool = False
) -> Response:
    """Return the messages of a model call, the values of a tool call, or input and output of a step.

    The form is the same for every sender (`docs/content.md`). With `raw`, also what was sent.
    """
    check_trace_id(trace_id)
    return await query_json(
        request, lambda parts, tenant: parts.content.document(tenant, trace_id, step_id, raw=raw)
    )


@router.get("/v1/traces/{trace_id}/completeness", summary="Read whether a run is complete")
async def get_completeness(request: Request, trace_id: str, *, linked: bool = True) -> Response:
    """Return emitters, number ranges, gaps, duplicates, clock errors and queued events of a run."""
    check_trace_id(trace_id)

    def ask(parts: Parts, tenant: str) -> bytes:
        # Read the queue first: events delivered meanwhile are counted twice, never missed.
        waiting = parts.queue.events_waiting(tenant=tenant, trace_id=trace_id)
        return parts.completeness.document(tenant, trace_id, waiting, linked=linked)

    return await query_json(request, ask)


@router.get("/v1/traces/{a}/diff/{b}", summary="Compare two runs")
async def get_diff(
    request: Request, a: str, b: str, *, everything: bool = False, linked: bool = True
) -> Response:
    """Return steps added, removed and changed in `b`; with `everything`, equal ones too.

    `first_difference` is the first step that differs.
    """
    check_trace_id(a)
    check_trace_id(b)
    return await query_json(
        request,
        lambda parts, tenant: parts.comparison.document(
            tenant, a, b, everything=everything, linked=linked
        ),
    )


@router.get("/v1/traces/{trace_id}/tape", summary="Fetch the tape of a run")
async def get_tape(
    request: Request,
    trace_id: str,
    emitter_id: Annotated[str | None, Query(max_length=256)] = None,
) -> Response:
    """Return the tape of the root emitter, or of another, as NDJSON."""
    check_trace_id(trace_id)
    lines = await query(
        request, lambda parts, tenant: parts.tapes.lines(tenant, trace_id, emitter_id)
    )
    return Response(lines, media_type="application/x-ndjson")


@router.get("/v1/tapes", summary="Fetch the tapes of many runs")
async def get_tapes(
    request: Request,
    trace_id: Annotated[list[Annotated[str, Query(max_length=128)]], Query(max_length=MAX_TAPES)],
) -> Response:
    """Return root tapes as NDJSON, `{"trace_id", "part"}`; the last line has the `rest` of the runs.

    An answer has at most 32 MiB, or one tape. Ask again for the rest.
    """
    for each in trace_id:
        check_trace_id(each)
    lines = await query(request, lambda parts, tenant: parts.many_tapes.lines(tenant, trace_id))
    return Response(lines, media_type="application/x-ndjson")


@router.get("/v1/traces/{trace_id}/replayable", summary="Ask whether a run can be replayed")
async def get_replayable(request: Request, trace_id: str) -> Response:
    """Return `yes`, `partly` or `no` with reasons, the command, past replays and branches."""
    check_trace_id(trace_id)
    return await query_json(
        request, lambda parts, tenant: parts.replayable.document(tenant, trace_id)
    )


@router.get("/v1/traces/{trace_id}/jaeger", summary="Open a run in Jaeger", status_code=307)
async def open_in_jaeger(request: Request, trace_id: str) -> RedirectResponse:
    """Redirect to the run at `TRACEREEL_JAEGER_URL`; by default to `/api/traces/{trace_id}`."""
    check_trace_id(trace_id)
    ui = parts_of(request).jaeger_url.rstrip("/")
    name = quote(trace_id, safe="")
    return RedirectResponse(f"{ui}/trace/{name}" if ui else f"/api/traces/{name}")


def _facets(named: str | None) -> tuple[str, ...]:
    kinds = tuple(dict.fromkeys(part.strip() for part in (named or "").split(",") if part.strip()))
    if unknown := [kind for kind in kinds if kind not in FACETS]:
        raise BadRequestError(
            f"facets: {unknown[0][:40]!r} is not counted; expected some of {', '.join(FACETS)}"
        )
    return kinds
