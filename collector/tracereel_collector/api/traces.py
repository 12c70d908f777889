"""`GET /v1/traces`: search for runs."""

import time
from typing import Annotated, Literal

from fastapi import Query, Request
from fastapi.responses import Response

from tracereel_collector.api.conditions import attribute_pairs, check_range, ranges
from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.errors import BadRequestError
from tracereel_collector.query.counting import FACETS
from tracereel_collector.query.executions import MAX_EXECUTIONS
from tracereel_collector.query.filters import RANGES, Filters
from tracereel_collector.query.scored import WIDEST, Scored
from tracereel_collector.query.search import MAX_BUCKETS, MAX_RUNS, Question
from tracereel_collector.query.window import DAY, parse_window
from tracereel_collector.store.rollups import TAG_KINDS

router = Surface(scope=Scope.READ)
DEFAULT_WINDOW = 7 * DAY
"""Of what needs one and is not given one: counts, and orders other than by time."""

Text = Annotated[str | None, Query(max_length=1_000)]
Texts = Annotated[list[str] | None, Query()]
Number = Annotated[float | None, Query(allow_inf_nan=False)]
Score = Annotated[float | None, Query(ge=-WIDEST, le=WIDEST, allow_inf_nan=False)]
Sort = Literal["started_at", "duration_ms", "cost_usd", "tokens", "events", "errors", "confidence"]


@router.get("/v1/traces", summary="Search runs")
async def get_traces(
    request: Request,
    from_: Annotated[str | None, Query(alias="from", max_length=64)] = None,
    to: Annotated[str | None, Query(max_length=64)] = None,
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
    min_score: Score = None,
    max_score: Score = None,
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
) -> Response:
    """The newest first unless told otherwise; `next` continues the list as `?cursor=`."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    given = locals()
    least, most = ranges(given, RANGES)
    check_range(min_score, max_score, names=("min_score", "max_score"))
    counted = _facets(facets)
    needs_window = bool(counted or histogram) or sort != "started_at" or order != "desc"
    question = Question(
        filters=Filters(
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
    )
    document = await parts.queries.run(lambda: parts.search.document(tenant, question))
    return Response(document, media_type="application/json")


def _facets(named: str | None) -> tuple[str, ...]:
    kinds = tuple(dict.fromkeys(part.strip() for part in (named or "").split(",") if part.strip()))
    if unknown := [kind for kind in kinds if kind not in FACETS]:
        raise BadRequestError(
            f"facets: {unknown[0][:40]!r} is not counted; expected some of {', '.join(FACETS)}"
        )
    return kinds
