"""`/v1/quarantine`: records that the store refused; list, show, retry or drop them."""

import asyncio
import base64
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Path, Query, Request

from tracereel_collector.auth import KeyScope
from tracereel_collector.errors import UnknownResourceError
from tracereel_collector.http.dependencies import caller_of, parts_of
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.model import QuarantineEntry

router = ScopedRouter(KeyScope.READ)
MAX_LISTED = 1_000
EntryId = Annotated[int, Path(ge=1, lt=2**62)]


@router.get("/v1/quarantine", summary="List quarantined records")
async def list_entries(
    request: Request,
    before: Annotated[int | None, Query(ge=1, lt=2**62)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100,
) -> dict[str, Any]:
    """List quarantined records, newest first; pass `next` as `?before=` for the next page."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    found = await asyncio.to_thread(
        parts.queue.quarantine.entries, tenant=tenant, before=before, limit=limit
    )
    following = found[-1].id if len(found) == limit else None
    return {"entries": [_shown(each) for each in found], "next": following}


@router.get("/v1/quarantine/{entry_id}", summary="Show a quarantined record")
async def show_entry(request: Request, entry_id: EntryId) -> dict[str, Any]:
    """Return the record with its data, as text if it is UTF-8, else as base64."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    found = await asyncio.to_thread(parts.queue.quarantine.entry, entry_id, tenant=tenant)
    if found is None:
        raise _unknown(entry_id)
    return _shown(found)


@router.post(
    "/v1/quarantine/{entry_id}/retry",
    scope=KeyScope.ADMIN,
    summary="Deliver a quarantined record again",
)
async def retry_entry(request: Request, entry_id: EntryId) -> dict[str, Any]:
    """Deliver a record again with its sequence number and arrival time.

    If the store refuses it again, it returns to the quarantine.
    """
    await asyncio.to_thread(_act, request, entry_id, "quarantine.retried")
    return {"id": entry_id, "status": "queued"}


@router.delete(
    "/v1/quarantine/{entry_id}", scope=KeyScope.ADMIN, summary="Drop a quarantined record"
)
async def drop_entry(request: Request, entry_id: EntryId) -> dict[str, Any]:
    """Delete a record permanently; it stays in the counters."""
    await asyncio.to_thread(_act, request, entry_id, "quarantine.dropped")
    return {"id": entry_id, "status": "dropped"}


def _act(request: Request, entry_id: int, event: str) -> None:
    """Write the audit record, then retry or drop the entry."""
    parts, caller = parts_of(request), caller_of(request)
    entry = parts.queue.quarantine.entry(entry_id, tenant=caller.tenant)
    if entry is None:
        raise _unknown(entry_id)
    parts.gate.audit.act(
        event,
        tenant=caller.tenant,
        by=caller.name,
        entry=entry_id,
        kind=entry.kind,
        records=entry.records,
        bytes=entry.size,
    )
    is_retry = event == "quarantine.retried"
    act = parts.queue.quarantine.retry if is_retry else parts.queue.quarantine.drop
    if not act(entry_id, tenant=caller.tenant):
        raise _unknown(entry_id)  # a concurrent request was faster


def _unknown(entry_id: int) -> UnknownResourceError:
    """Return the error for an entry that is missing or belongs to another tenant."""
    return UnknownResourceError(
        f"there is no quarantined record {entry_id}", hint="see GET /v1/quarantine"
    )


def _shown(entry: QuarantineEntry) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": entry.id,
        "kind": entry.kind,
        "sequence_number": entry.sequence_number,
        "records": entry.records,
        "bytes": entry.size,
        "reason": entry.reason,
        "received": _time(entry.received_unix_nano),
        "quarantined": _time(entry.quarantined_unix_nano),
    }
    if entry.data is not None:
        try:
            shown["data"] = entry.data.decode()
        except UnicodeDecodeError:
            shown["data_base64"] = base64.b64encode(entry.data).decode()
    return shown


def _time(unix_nano: int) -> str | None:
    if not unix_nano:
        return None
    return datetime.fromtimestamp(unix_nano / 1e9, UTC).isoformat().replace("+00:00", "Z")
