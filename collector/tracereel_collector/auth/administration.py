"""Creation and revocation of keys, with audit records; used by the CLI and the API."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tracereel_collector.auth.audit import AuditLog
from tracereel_collector.auth.keys import Key, KeyScope
from tracereel_collector.auth.keystore import FILE, KeyStore
from tracereel_collector.errors import BadRequestError
from tracereel_collector.runtime.clock import TrustedClock

_DURATION: Final = re.compile(r"([1-9][0-9]{0,5})([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


@dataclass(frozen=True, slots=True)
class Administration:
    """Operations on keys; each is in the audit log before it takes effect."""

    keys: KeyStore
    audit: AuditLog
    now_unix: Callable[[], float] = time.time

    @classmethod
    def of(cls, data_dir: Path) -> "Administration":
        """Return the administration of a data directory."""
        now = TrustedClock(data_dir).latest_unix
        return cls(KeyStore(data_dir / FILE, now_unix=now), AuditLog(data_dir / "audit"), now)

    def create(
        self,
        *,
        tenant: str,
        scopes: frozenset[KeyScope],
        name: str = "",
        expires: str | None = None,
        by: str,
    ) -> tuple[str, Key]:
        """Create a key; return the secret and its record."""
        return self.keys.create(
            tenant=tenant,
            scopes=scopes,
            name=name,
            expires_unix=parse_expiry(expires, now_unix=self.now_unix()) if expires else None,
            on_made=lambda key: self._write_down("key.created", key, by),
        )

    def revoke(self, key_id: str, *, tenant: str | None = None, by: str) -> Key:
        """Revoke a key; revoking it again changes nothing."""
        return self.keys.revoke(
            key_id, tenant=tenant, on_revoked=lambda key: self._write_down("key.revoked", key, by)
        )

    def described(self, key: Key) -> dict[str, Any]:
        """Return a key's public fields and current state."""
        return described(key, now_unix=self.now_unix())

    def list(self, *, tenant: str | None = None) -> list[Key]:
        """List all keys, or those of one tenant."""
        return [key for key in self.keys.list() if tenant in (None, key.tenant)]

    def _write_down(self, event: str, key: Key, by: str) -> None:
        scopes = sorted(key.scopes)
        self.audit.act(event, key=key.id, tenant=key.tenant, name=key.name, scopes=scopes, by=by)


def described(key: Key, *, now_unix: float) -> dict[str, Any]:
    """Return a key's public fields, without its digest."""
    return {
        "id": key.id,
        "tenant": key.tenant,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "state": key.state(now_unix),
        "created": _moment(key.created_unix),
        "expires": _moment(key.expires_unix),
        "revoked": _moment(key.revoked_unix),
    }


def parse_expiry(text: str, *, now_unix: float) -> int:
    """Parse `90d`, `12h`, or an ISO date or time into Unix seconds."""
    found = _DURATION.fullmatch(text.strip())
    if found is not None:
        return int(now_unix) + int(found.group(1)) * _SECONDS[found.group(2)]
    try:
        moment = datetime.fromisoformat(text.strip())
        seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError) as error:
        raise BadRequestError(
            f"expires is {text[:40]!r}; expected a duration such as 90d or 12h, or 2027-01-31"
        ) from error
    return int(min(seconds, _LATEST))


def _moment(seconds: int | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()
