"""Retention of a tenant's rows: show and set."""

from collections.abc import Callable
from typing import Any, Final

from tracereel_collector.auth.audit import AuditLog
from tracereel_collector.runtime.clock import Dating
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.store.retention import Limits, oldest_day, rules_of, set_rule

MAX_DAYS: Final = 36_500


class Retention:
    """Retention of tenants; rules are stored in the store and shared by all its collectors."""

    def __init__(
        self,
        store: ClickHouseStore,
        audit: AuditLog,
        *,
        default_days: int,
        dating: Callable[[], Dating],
    ) -> None:
        self._store = store
        self._dating = dating
        self._audit = audit
        self._default_days = default_days

    def shown(self, tenant: str) -> dict[str, Any]:
        """Return the retention of a tenant, its origin, and the oldest day with rows."""
        rules = rules_of(self._store)
        rule = next((each for each in rules if each.tenant == tenant), None)
        days = rule.days if rule is not None else self._default_days
        limits = Limits.of(rules, default_days=self._default_days, today=self._dating().today)
        first = limits.by_tenant.get(tenant, limits.others)
        return {
            "tenant": tenant,
            "days": days or None,
            "from": "rule" if rule is not None else "default",
            "set_at": rule.set_at if rule is not None else None,
            "set_by": rule.set_by if rule is not None else None,
            "first_day_kept": str(first) if first is not None else None,
            "oldest_day": oldest_day(self._store, tenant),
        }

    def set(self, tenant: str, days: int | None, *, by: str) -> dict[str, Any]:
        """Set the retention in days; 0 means forever, `None` restores the default.

        Raises:
            ServiceUnavailableError: the store or the audit log is unavailable.
        """
        self._audit.act("retention.set", tenant=tenant, by=by, days=days)
        set_rule(self._store, tenant, days, by=by, now_unix_nano=self._dating().now_nano)
        return self.shown(tenant)
