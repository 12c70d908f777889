"""`GET /v1/quarantine`: what the store refused for its content, to look at."""

import asyncio
import base64
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Path, Query, Request

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.errors import NotFoundError
from tracereel_collector.model import QuarantineEntry

router = Surface(scope=Scope.READ)
MAX_LISTED = 1_000
EntryId = Annotated[int, Path(ge=1, lt=2**62)]


@router.get("/v1/quarantine", summary="List quarantined records")
async def list_entries(
    request: Request,
    before: Annotated[int | None, Query(ge=1, lt=2**62)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100,
) -> dict[str, Any]:
    """The tenant's, the newest first; `next` continues the list as `?before=`."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    found = await asyncio.to_thread(
        parts.queue.quarantined, tenant=tenant, before=before, limit=limit
    )
    following = found[-1].id if len(found) == limit else None
    return {"entries": [_shown(each) for each in found], "next": following}


@router.get("/v1/quarantine/{entry_id}", summary="Show a quarantined record")
async def show_entry(request: Request, entry_id: EntryId) -> dict[str, Any]:
    """With its data: as text where it is text, else in base64."""
    parts, tenant = parts_of(request), caller_of(request).tenant
    found = await asyncio.to_thread(parts.queue.quarantine_entry, entry_id, tenant=tenant)
    if found is None:
        raise unknown(entry_id)
    return _shown(found)


def unknown(entry_id: int) -> NotFoundError:
    """What is said of an entry that is not there, or is another tenant's."""
    return NotFoundError(
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
