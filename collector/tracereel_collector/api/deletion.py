"""`DELETE /v1/traces/{trace_id}` and `/v1/users/{user_id}`: really gone, and written down."""

from typing import Annotated, Any

from fastapi import Path, Request

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Caller, Scope
from tracereel_collector.query.replay import check_trace_id

router = Surface(scope=Scope.ADMIN)
UserId = Annotated[str, Path(min_length=1, max_length=512)]


@router.delete("/v1/traces/{trace_id}", summary="Delete a run")
async def delete_trace(request: Request, trace_id: str) -> dict[str, Any]:
    """From every table, the queue and the quarantine; what comes late for a week is dropped."""
    parts, caller = parts_of(request), caller_of(request)
    check_trace_id(trace_id)
    return await parts.queries.run(
        lambda: parts.deletion.trace(caller.tenant, trace_id, by=_who(caller))
    )


@router.delete("/v1/users/{user_id:path}", summary="Delete all runs of a user")
async def delete_user(request: Request, user_id: UserId) -> dict[str, Any]:
    """Every run in which an event or a span names the user."""
    parts, caller = parts_of(request), caller_of(request)
    return await parts.queries.run(
        lambda: parts.deletion.user(caller.tenant, user_id, by=_who(caller))
    )


def _who(caller: Caller) -> str:
    return caller.key_id or caller.peer
