"""Making and revoking keys, with a line in the audit log for each: what the command and the API do."""

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tracereel_collector.auth.audit import AuditLog
from tracereel_collector.auth.keys import Key, Scope
from tracereel_collector.auth.keystore import FILE, KeyStore
from tracereel_collector.errors import BadRequestError, UnavailableError

_DURATION: Final = re.compile(r"([1-9][0-9]{0,5})([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


@dataclass(frozen=True, slots=True)
class Administration:
    """Acts on keys; each is in the audit log before it holds."""

    keys: KeyStore
    audit: AuditLog

    @classmethod
    def of(cls, data_dir: Path) -> "Administration":
        """That of a data directory."""
        return cls(KeyStore(data_dir / FILE), AuditLog(data_dir / "audit"))

    def create(
        self,
        *,
        tenant: str,
        scopes: frozenset[Scope],
        name: str = "",
        expires: str | None = None,
        by: str,
    ) -> tuple[str, Key]:
        """A new key and what is kept of it.

        Raises:
            BadRequestError: something about it cannot be.
        """
        return self.keys.create(
            tenant=tenant,
            scopes=scopes,
            name=name,
            expires_unix=parse_expiry(expires, now_unix=time.time()) if expires else None,
            on_made=lambda key: self._write_down("key.created", key, by),
        )

    def revoke(self, key_id: str, *, tenant: str | None = None, by: str) -> Key:
        """End a key; revoking it again changes nothing.

        Raises:
            NotFoundError: there is no such key.
        """
        return self.keys.revoke(
            key_id, tenant=tenant, on_revoked=lambda key: self._write_down("key.revoked", key, by)
        )

    def list(self, *, tenant: str | None = None) -> list[Key]:
        """All keys, or those of one tenant."""
        return [key for key in self.keys.list() if tenant in (None, key.tenant)]

    def _write_down(self, event: str, key: Key, by: str) -> None:
        try:
            self.audit.act(
                event,
                key=key.id,
                tenant=key.tenant,
                name=key.name,
                scopes=sorted(key.scopes),
                by=by,
            )
        except OSError as error:
            raise UnavailableError(f"the audit log cannot be written: {error}") from error


def described(key: Key) -> dict[str, Any]:
    """A key for people and machines to see: without its digest."""
    return {
        "id": key.id,
        "tenant": key.tenant,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "state": key.state(time.time()),
        "created": _moment(key.created_unix),
        "expires": _moment(key.expires_unix),
        "revoked": _moment(key.revoked_unix),
    }


def parse_expiry(text: str, *, now_unix: float) -> int:
    """`90d`, `12h`, or a date or time in ISO form, as seconds since 1970.

    Raises:
        BadRequestError: it is none of these.
    """
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
