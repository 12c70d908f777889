"""Tenant names in requests: they may repeat the key's tenant; any other is refused.

| location | names |
|---|---|
| headers | `x-tenant`, `x-tenant-id`, `x-scope-orgid`, `tenant` |
| query | `tenant` |
| events | the field `tenant` |
| OTLP | the resource attributes `tenant`, `tenant.id`, `tracereel.tenant` |

Empty and null values are ignored. All other fields are the sender's data: a span attribute or an
event's `tenant_id` may name a customer of the traced program.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from tracereel_collector.errors import ForbiddenError

HEADERS: Final = ("x-tenant", "x-tenant-id", "x-scope-orgid", "tenant")
QUERY: Final = "tenant"
EVENT_FIELD: Final = "tenant"
RESOURCE_ATTRIBUTES: Final = frozenset({"tenant", "tenant.id", "tracereel.tenant"})
HINT: Final = "leave the tenant out: it is the key's"


class TenantClaimedError(ForbiddenError, code="tenant_mismatch"):
    """The request names another tenant than its key's."""

    reason = "tenant"


def refusal(where: str, claimed: object, tenant: str) -> str:
    """Return why a tenant name is refused."""
    return f"{where}: {str(claimed)[:80]!r} is another tenant; the key's is {tenant!r}"


def check_request(headers: Mapping[str, str], query: str, tenant: str) -> None:
    """Refuse a request whose headers or query name another tenant."""
    for name in HEADERS:
        claimed = headers.get(name)
        if claimed and claimed != tenant:
            raise TenantClaimedError(refusal(f"header {name}", claimed, tenant), hint=HINT)
    if QUERY in query or "%" in query:
        for name, value in parse_qsl(query):
            if name == QUERY and value != tenant:
                raise TenantClaimedError(refusal(f"query {QUERY}", value, tenant), hint=HINT)
