"""Tenants named in OTLP bodies: a resource that names another one than the key's does not enter."""

from collections.abc import Iterable
from typing import Any

from tracereel_collector.auth.claims import RESOURCE_ATTRIBUTES, refusal

_RECORDS = {
    "resource_spans": ("scope_spans", "spans"),
    "resource_logs": ("scope_logs", "log_records"),
    "resource_metrics": ("scope_metrics", "metrics"),
}


def foreign_claim(attributes: Iterable[Any], tenant: str) -> str | None:
    """Why a resource is refused; None where it names no other tenant."""
    for pair in attributes:
        if pair.key in RESOURCE_ATTRIBUTES:
            kind = pair.value.WhichOneof("value")
            claimed = getattr(pair.value, kind) if kind else ""
            if claimed not in ("", tenant):
                return refusal(f"resource attribute {pair.key}", claimed, tenant)
    return None


def remove_foreign(request: Any, tenant: str) -> tuple[int, str | None]:
    """Take resources that name another tenant out of an OTLP request; how many records, and why."""
    removed = 0
    reason: str | None = None
    for name, (scopes, records) in _RECORDS.items():
        resources: Any = getattr(request, name, ())
        for index in range(len(resources) - 1, -1, -1):
            why = foreign_claim(resources[index].resource.attributes, tenant)
            if why is not None:
                reason = why
                removed += sum(
                    len(getattr(scope, records)) for scope in getattr(resources[index], scopes)
                )
                del resources[index]
    return removed, reason
