"""`GET /v1/traces/{trace_id}`: a run as a tree."""

from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.query.brief import BYTES_PER_TOKEN, MIN_BYTES
from tracereel_collector.query.replay import check_trace_id

router = Surface(scope=Scope.READ)
MAX_BUDGET = 64 * 1024 * 1024


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
) -> Response:
    """`steps` in order, each behind its parent; runs that this one started are among them.

    With `step` the part below it, and its events; with `alone` too, only the step itself. Above
    `outline_above` steps, `outline` instead: what a picture needs of each, by field. With a budget
    what matters most, in that many bytes, or tokens of a language model, and how to ask for more.
    """
    parts, tenant = parts_of(request), caller_of(request).tenant
    check_trace_id(trace_id)
    limits = [budget_bytes, budget_tokens and budget_tokens * BYTES_PER_TOKEN]
    budget = min((each for each in limits if each is not None), default=None)
    document = await parts.queries.run(
        lambda: parts.traces.document(
            tenant,
            trace_id,
            linked=linked,
            step_id=step,
            alone=alone,
            budget=budget,
            outline_above=outline_above,
        )
    )
    return Response(document, media_type="application/json")
