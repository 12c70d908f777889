"""How long a tenant's rows are kept: shown and set."""

from datetime import UTC, date, datetime
from typing import Any, Final

from tracereel_collector.auth.audit import AuditLog
from tracereel_collector.errors import UnavailableError
from tracereel_collector.store.retention import Keeps, Limits, oldest_day, rules_of, set_rule

MAX_DAYS: Final = 36_500


class Retention:
    """What is known of a tenant's retention; rules are kept in the store, for all collectors on it."""

    def __init__(self, store: Keeps, audit: AuditLog, *, default_days: int) -> None:
        self._store = store
        self._audit = audit
        self._default_days = default_days

    def shown(self, tenant: str) -> dict[str, Any]:
        """How long, by whose word, and how far back its rows go."""
        rules = rules_of(self._store)
        rule = next((each for each in rules if each.tenant == tenant), None)
        days = rule.days if rule is not None else self._default_days
        limits = Limits.of(rules, default_days=self._default_days, today=_today())
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
        """Keep its rows so many days, 0 for ever; None: as the collector is set.

        Raises:
            UnavailableError: the store or the audit log is away.
        """
        try:
            self._audit.act("retention.set", tenant=tenant, by=by, days=days)
        except OSError as error:
            raise UnavailableError(f"the audit log cannot be written: {error}") from error
        set_rule(self._store, tenant, days, by=by)
        return self.shown(tenant)


def _today() -> date:
    return datetime.now(UTC).date()
