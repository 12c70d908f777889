"""The one way in: who sends a request, whether they may, and whether it is too much."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from tracereel_collector.auth.audit import AuditLog
from tracereel_collector.auth.claims import TenantClaimedError, check_request
from tracereel_collector.auth.guard import Guard
from tracereel_collector.auth.keyring import OPEN, Identity, Keyring, is_loopback, key_in
from tracereel_collector.auth.keys import Scope, digest_of, id_in
from tracereel_collector.auth.keystore import KeyStore
from tracereel_collector.auth.limits import KeyLimits, RateLimitedError, Rates
from tracereel_collector.auth.metrics import AccessMetrics
from tracereel_collector.auth.origins import ANY, OriginRefusedError, check_host, check_origin
from tracereel_collector.errors import (
    CollectorError,
    ForbiddenError,
    StartupError,
    UnauthorizedError,
)

log = structlog.get_logger(__name__)

REFRESH_SECONDS: Final = 0.5
"""How long a revoked key may go on working."""
LOOK_AGAIN_SECONDS: Final = 0.05
"""How often, at most, an unknown key makes the file be looked at: it may be new."""
_HINT: Final = "send x-api-key: KEY or Authorization: Bearer KEY"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request; `key_id` is empty where no key is needed."""

    tenant: str
    key_id: str
    scopes: frozenset[Scope]
    peer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """What the gate is made with."""

    host: str
    static: Mapping[bytes, Identity]
    origins: tuple[str, ...] = ()
    rates: Rates = Rates()
    rates_file: Path | None = None


class Gate:
    """Admits requests; `start` first. Every method may be called from any thread."""

    def __init__(
        self,
        settings: GateSettings,
        *,
        keys: KeyStore,
        audit: AuditLog,
        metrics: AccessMetrics,
        monotonic: Callable[[], float] = time.monotonic,
        now_unix: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._keys = keys
        self._audit = audit
        self._metrics = metrics
        self._monotonic = monotonic
        self._now = now_unix
        self._ring = Keyring(settings.static)
        self._guard = Guard(settings.rates_file)
        self._limits = KeyLimits(settings.rates, settings.rates_file)
        self._looked_at = float("-inf")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="access", daemon=True)

    def start(self) -> None:
        """Read the keys and keep them current from now on.

        Raises:
            StartupError: the keys cannot be read, or nothing protects what others could reach.
        """
        self.check()
        self._thread.start()

    def check(self) -> None:
        """Read the keys and see whether they protect what others could reach.

        Raises:
            StartupError: they cannot be read, or do not.
        """
        try:
            self.refresh()
        except CollectorError as error:
            raise StartupError(error.message) from error
        if not self._ring.has_active(self._now()) and not is_loopback(self._settings.host):
            raise StartupError(
                f"refusing to listen on {self._settings.host} without API keys",
                hint="make one with `tracereel keys create`, or set TRACEREEL_API_KEYS=tenant:key,"
                " or listen on 127.0.0.1",
            )
        if self._ring.open and ANY in self._settings.origins:
            raise StartupError(
                "refusing TRACEREEL_CORS_ORIGINS=* without API keys: every web page could read all",
                hint="name the origins, or make a key with `tracereel keys create`",
            )

    def close(self) -> None:
        """Write what is left for the audit log; safe to call twice, and before `start`."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._audit.flush(everything=True)
        self._keys.close()
        self._limits.close()
        self._guard.close()

    def refresh(self) -> None:
        """Take over what changed in the file of keys.

        Raises:
            KeysUnreadableError: it cannot be read; the keys known so far stay.
        """
        if self._keys.changed():
            stored = {key.id: key for key in self._keys.list()}
            # A file that is gone takes its keys along, but does not open a door that was closed.
            needed = bool(stored) or not self._ring.open
            self._ring = Keyring(self._settings.static, stored, needed=needed)

    def admit(
        self, headers: Mapping[str, str], *, scope: Scope, peer: str, query: str = ""
    ) -> Caller:
        """Who sends a request that needs a scope. Header names are in lower case.

        Raises:
            UnauthorizedError: no key, or one that is not (or no longer) valid.
            ForbiddenError: the key may not do this, or the request claims another tenant.
            ThrottledError: too many wrong keys from there, or more than the key's share.
        """
        key_id = ""
        try:
            identity = self._identify(headers, peer)
            key_id = identity.key_id
            check_origin(headers, self._settings.origins)
            if scope not in identity.scopes:
                raise _RefusedError("scope", _not_granted(scope, identity))
            check_request(headers, query, identity.tenant)
            if scope is Scope.WRITE:
                self._limits.check(identity.key_id, self._monotonic())
        except _RefusedError as refusal:
            self._refused(refusal.reason, peer, key_id)
            raise refusal.error from None
        except TenantClaimedError:
            self._refused("tenant", peer, key_id)
            raise
        except RateLimitedError:
            self._refused("rate", peer, key_id)
            raise
        except OriginRefusedError:
            self._refused("origin", peer, key_id)
            raise
        if key_id:
            self._audit.note(
                "key.used", key=key_id, tenant=identity.tenant, scope=scope.value, peer=peer
            )
        return Caller(identity.tenant, identity.key_id, identity.scopes, peer)

    def charge(self, caller: Caller, *, records: int = 0, size: int = 0) -> None:
        """Count what a request held against the limits of its key."""
        self._limits.charge(caller.key_id, records=records, size=size, now=self._monotonic())

    def _identify(self, headers: Mapping[str, str], peer: str) -> Identity:
        ring = self._ring
        if ring.open:
            check_host(headers)
            return OPEN
        key = key_in(headers)
        if not key:
            raise _RefusedError(
                "missing_key", UnauthorizedError("an API key is required", hint=_HINT)
            )
        digest, now = digest_of(key), self._monotonic()
        wait = self._guard.wait(peer, digest, now)
        if wait > 0:
            raise _RefusedError(
                "too_many_tries",
                RateLimitedError(
                    "too many wrong API keys came from your address", wait_seconds=wait
                ),
            )
        identity = ring.identify(key, self._now()) or self._identify_new(key, now)
        if identity is None:
            self._guard.failed(peer, digest, now)
            raise _RefusedError(
                "unknown_key", UnauthorizedError("the API key is not valid", hint=_HINT)
            )
        if identity.state != "active":
            # Whoever holds the whole key may know what became of it.
            raise _RefusedError(
                f"{identity.state}_key", UnauthorizedError(f"the API key is {identity.state}")
            )
        self._guard.succeeded(peer, digest)
        return identity

    def _identify_new(self, key: str, now: float) -> Identity | None:
        """Whose key this is, if it was made so lately that this process does not know it yet."""
        if not id_in(key) or now - self._looked_at < LOOK_AGAIN_SECONDS:
            return None
        self._looked_at = now
        try:
            self.refresh()
        except CollectorError:
            return None  # the background thread says so
        return self._ring.identify(key, self._now())

    def _refused(self, reason: str, peer: str, key_id: str) -> None:
        self._metrics.refused.labels(reason).inc()
        known = {"key": key_id} if key_id else {}
        self._audit.note("request.refused", reason=reason, peer=peer, **known)

    def _run(self) -> None:
        readable = True
        while not self._stopping.wait(REFRESH_SECONDS):
            try:
                self.refresh()
                readable = True
            except CollectorError as error:
                if readable:
                    log.error("keys_unreadable", reason=error.message)
                readable = False
            self._audit.flush()


class _RefusedError(Exception):
    """A refusal on its way to be counted."""

    def __init__(self, reason: str, error: CollectorError) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error


def _not_granted(scope: Scope, identity: Identity) -> ForbiddenError:
    granted = ", ".join(sorted(identity.scopes))
    return ForbiddenError(f"this key has the scopes {granted}; {scope.value} is needed")
