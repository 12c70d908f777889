"""What may be done with quarantined records: try them again, let them go."""

import asyncio
from typing import Any

from fastapi import Request

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.quarantine import EntryId, unknown
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope

router = Surface(scope=Scope.ADMIN)


@router.post("/v1/quarantine/{entry_id}/retry", summary="Deliver a quarantined record again")
async def retry_entry(request: Request, entry_id: EntryId) -> dict[str, Any]:
    """It keeps its sequence number and time of arrival; refused again, it comes back here."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    if not await asyncio.to_thread(parts.queue.retry_quarantined, entry_id, tenant=tenant):
        raise unknown(entry_id)
    return {"id": entry_id, "status": "queued"}


@router.delete("/v1/quarantine/{entry_id}", summary="Drop a quarantined record")
async def drop_entry(request: Request, entry_id: EntryId) -> dict[str, Any]:
    """For good; it stays counted."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    if not await asyncio.to_thread(parts.queue.drop_quarantined, entry_id, tenant=tenant):
        raise unknown(entry_id)
    return {"id": entry_id, "status": "dropped"}
