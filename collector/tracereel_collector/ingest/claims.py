"""Tenant names in OTLP resources: those of another tenant are refused."""

from collections.abc import Iterable, Iterator
from typing import Any

from tracereel_collector.auth.claims import RESOURCE_ATTRIBUTES, refusal

_RESOURCES = ("resource_spans", "resource_logs", "resource_metrics")


def foreign_claim(attributes: Iterable[Any], tenant: str) -> str | None:
    """Return why a resource is refused; None if it names no other tenant."""
    for pair in attributes:
        if pair.key in RESOURCE_ATTRIBUTES:
            kind = pair.value.WhichOneof("value")
            claimed = getattr(pair.value, kind) if kind else ""
            if claimed not in ("", tenant):
                return refusal(f"resource attribute {pair.key}", claimed, tenant)
    return None


def names_another(request: Any, tenant: str) -> bool:
    """Return whether any resource of an OTLP request names another tenant."""
    return any(
        foreign_claim(each.resource.attributes, tenant) is not None
        for resources in _resources(request)
        for each in resources
    )


def remove_foreign(request: Any, tenant: str) -> str:
    """Remove resources that name another tenant; return the reason for the first."""
    reason = ""
    for resources in _resources(request):
        for index in range(len(resources) - 1, -1, -1):
            why = foreign_claim(resources[index].resource.attributes, tenant)
            if why is not None:
                reason = why
                del resources[index]
    return reason


def _resources(request: Any) -> Iterator[Any]:
    return (getattr(request, name) for name in _RESOURCES if hasattr(request, name))
