"""What in a request names a tenant. It may repeat the key's own; any other name is refused.

| where | what counts |
|---|---|
| headers | `x-tenant`, `x-tenant-id`, `x-scope-orgid`, `tenant` |
| query | `tenant` |
| events | the field `tenant` |
| OTLP | the resource attributes `tenant`, `tenant.id`, `tracereel.tenant` |

Empty and null claim nothing. Everything else is the sender's own data: a span attribute or an event's
`tenant_id` may well name a customer of the program that is watched.
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


class TenantClaimedError(ForbiddenError):
    """The request says it belongs to another tenant than its key."""

    code = "tenant_mismatch"


def refusal(where: str, claimed: object, tenant: str) -> str:
    """Why a claim is refused."""
    return f"{where}: {str(claimed)[:80]!r} is another tenant; the key's is {tenant!r}"


def check_request(headers: Mapping[str, str], query: str, tenant: str) -> None:
    """Refuse a request whose headers or query name another tenant.

    Raises:
        TenantClaimedError: says where and which.
    """
    for name in HEADERS:
        claimed = headers.get(name)
        if claimed and claimed != tenant:
            raise TenantClaimedError(refusal(f"header {name}", claimed, tenant), hint=HINT)
    if QUERY in query or "%" in query:
        for name, value in parse_qsl(query):
            if name == QUERY and value != tenant:
                raise TenantClaimedError(refusal(f"query {QUERY}", value, tenant), hint=HINT)
