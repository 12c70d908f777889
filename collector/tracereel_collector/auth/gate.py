"""Access gate: authenticates requests, checks scopes and enforces rate limits."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import structlog
from prometheus_client import CollectorRegistry

from tracereel_collector.auth.audit import AuditLog
from tracereel_collector.auth.browsers import (
    ANY,
    OriginRefusedError,
    PublicUrl,
    check_host,
    check_origin,
    parse_origins,
    parse_public_url,
    session_in,
)
from tracereel_collector.auth.claims import TenantClaimedError, check_request
from tracereel_collector.auth.guard import GuessingGuard
from tracereel_collector.auth.keyring import (
    OPEN,
    OPEN_ADMIN,
    Identity,
    Keyring,
    is_loopback,
    key_in,
    parse_static,
)
from tracereel_collector.auth.keys import KeyScope, digest_of, id_in
from tracereel_collector.auth.keystore import FILE as KEYS_FILE
from tracereel_collector.auth.keystore import KeyStore
from tracereel_collector.auth.limits import KeyLimits, RateLimitedError, Rates
from tracereel_collector.auth.sessions import FILE as SESSIONS_FILE
from tracereel_collector.auth.sessions import SessionStore
from tracereel_collector.config import Settings
from tracereel_collector.errors import (
    CollectorError,
    ForbiddenError,
    StartupError,
    UnauthorizedError,
)
from tracereel_collector.telemetry import AccessMetrics

log = structlog.get_logger(__name__)

REFRESH_SECONDS: Final = 0.5
"""Longest time that a revoked key continues to work."""
LOOK_AGAIN_SECONDS: Final = 0.05
"""Shortest interval between file checks for an unknown key, which may be new."""
_REASONS: Final = {
    TenantClaimedError: "tenant",
    RateLimitedError: "rate",
    OriginRefusedError: "origin",
}
"""Metric labels of refusals."""
_HINT: Final = "send x-api-key: KEY or Authorization: Bearer KEY"


@dataclass(frozen=True, slots=True)
class Caller:
    """Sender of a request; `key_id` is empty if no key is needed."""

    tenant: str
    key_id: str
    scopes: frozenset[KeyScope]
    peer: str

    @property
    def name(self) -> str:
        """Name for the audit log: the key id, or the address without a key."""
        return self.key_id or self.peer


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings:
    """Settings of the gate."""

    host: str
    static: Mapping[bytes, Identity]
    sessions_file: Path
    local_admin: bool = False
    """Whether requests have the `admin` scope while no key was ever created."""
    origins: tuple[str, ...] = ()
    public: PublicUrl = PublicUrl()
    rates: Rates = Rates()
    rates_file: Path | None = None


class AccessGate:
    """Thread-safe access control for requests; call `start` first."""

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
        self.settings = settings
        self.keys = keys
        self.audit = audit
        self.metrics = metrics
        self._monotonic = monotonic
        self._now = now_unix
        self._ring = Keyring(settings.static)
        self._has_several_tenants = False
        self._sessions = SessionStore(settings.sessions_file, now_unix=now_unix)
        self._guard = GuessingGuard(settings.rates_file)
        self._limits = KeyLimits(settings.rates, settings.rates_file)
        self._looked_at = float("-inf")
        self._refreshing = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="access", daemon=True)

    @classmethod
    def build(
        cls, settings: Settings, registry: CollectorRegistry, *, now_unix: Callable[[], float]
    ) -> Self:
        """Build the gate of a collector; keys and sessions expire by `now_unix`.

        Raises:
            StartupError: a setting is invalid.
        """
        metrics = AccessMetrics.register(registry)
        public = parse_public_url(
            settings.public_url, trust_forwarded_proto=settings.trust_forwarded_proto == "on"
        )
        return cls(
            GateSettings(
                host=settings.host,
                static=parse_static(settings.api_keys),
                local_admin=settings.local_admin == "on",
                origins=parse_origins(settings.cors_origins),
                public=public,
                rates=Rates(records=settings.rate_records, bytes=settings.rate_bytes),
                rates_file=settings.data_dir / "limits.sqlite",
                sessions_file=settings.data_dir / SESSIONS_FILE,
            ),
            keys=KeyStore(settings.data_dir / KEYS_FILE, now_unix=now_unix),
            audit=AuditLog(
                settings.data_dir / "audit",
                on_error=lambda lines: metrics.audit_lost.labels("unwritable").inc(lines),
            ),
            metrics=metrics,
            now_unix=now_unix,
        )

    def start(self) -> None:
        """Check the keys and start the thread that keeps them current."""
        self.check()
        self._thread.start()

    def check(self) -> None:
        """Read the keys and check that the collector is not exposed without them.

        Raises:
            StartupError: the keys cannot be read, or the collector is exposed without keys.
        """
        try:
            self.refresh()
        except CollectorError as error:
            raise StartupError(error.message) from error
        if not self._ring.has_active(self._now()) and not is_loopback(self.settings.host):
            raise StartupError(
                f"refusing to listen on {self.settings.host} without API keys",
                hint="make one with `tracereel keys create`, or set TRACEREEL_API_KEYS=tenant:key,"
                " or listen on 127.0.0.1",
            )
        if self._ring.open and ANY in self.settings.origins:
            raise StartupError(
                "refusing TRACEREEL_CORS_ORIGINS=* without API keys: every web page could read all",
                hint="name the origins, or make a key with `tracereel keys create`",
            )

    def close(self) -> None:
        """Stop the thread and flush the audit log; idempotent, also before `start`."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self.audit.flush(everything=True)
        self.keys.close()
        self._limits.close()
        self._guard.close()

    def refresh(self) -> None:
        """Reload the keys if their file changed.

        Raises:
            KeysUnreadableError: the file cannot be read; the current keys stay valid.
        """
        # Locked: a thread that sees no change must not use keys that another has yet to publish, and
        # an older read must not replace a newer one in which a key may have been revoked.
        with self._refreshing:
            keys = self.keys.list_if_changed()
            if keys is None:
                return
            stored = {key.id: key for key in keys}
            # A deleted file removes its keys but does not make the collector open.
            needed = bool(stored) or not self._ring.open
            self._ring = Keyring(self.settings.static, stored, needed=needed)
            self._has_several_tenants = self._ring.has_several_tenants(self._now())

    @property
    def has_several_tenants(self) -> bool:
        """Whether several tenants had an active key when the keys last changed."""
        return self._has_several_tenants

    def admit(
        self, headers: Mapping[str, str], *, scope: KeyScope, peer: str, query: str = ""
    ) -> Caller:
        """Authenticate a request and check its scope; header names are lower case.

        Raises:
            UnauthorizedError: the key is missing or invalid.
            ForbiddenError: the key lacks the scope, or the request names another tenant.
            ThrottledError: too many invalid keys from this address, or the key's rate limit.
        """
        key_id = ""
        try:
            # First: a request that another site caused must not count as a guessed key of its user.
            check_origin(headers, self.settings.origins, self.settings.public)
            identity = self._identify(headers, peer)
            key_id = identity.key_id
            if scope not in identity.scopes:
                raise _CallerRefusedError("scope", _not_granted(scope, identity))
            check_request(headers, query, identity.tenant)
            if scope is KeyScope.WRITE:
                self._limits.check(identity.key_id, self._monotonic())
        except _CallerRefusedError as refusal:
            self._refused(refusal.reason, peer, key_id)
            raise refusal.error from None
        except (TenantClaimedError, RateLimitedError, OriginRefusedError) as error:
            self._refused(_REASONS[type(error)], peer, key_id)
            raise
        if key_id:
            self.audit.note(
                "key.used", key=key_id, tenant=identity.tenant, scope=scope.value, peer=peer
            )
        return Caller(identity.tenant, identity.key_id, identity.scopes, peer)

    def key_state(self, fingerprint: str, *, tenant: str) -> str:
        """Return the state of one of a tenant's keys by its fingerprint."""
        return self._ring.state_of(fingerprint, tenant=tenant, now_unix=self._now())

    def begin_session(self, caller: Caller, key: str) -> str:
        """Start a session with the scopes of the caller's key and return its token.

        Raises:
            ServiceUnavailableError: the session or the audit log cannot be written.
        """
        self.audit.act("session.created", key=caller.key_id, tenant=caller.tenant, peer=caller.peer)
        return self._sessions.begin(caller.key_id, digest_of(key))

    def end_session(self, headers: Mapping[str, str], *, peer: str) -> None:
        """End the session of a request's cookie, if any.

        Raises:
            OriginRefusedError: a page of another site sent the request.
            ServiceUnavailableError: the session cannot be ended.
        """
        try:
            check_origin(headers, self.settings.origins, self.settings.public)
        except OriginRefusedError:
            self._refused("origin", peer, "")
            raise
        token = session_in(headers, self.settings.public)
        session = self._sessions.find(token) if token else None
        if session is not None and self._sessions.end(token):
            self.audit.note("session.ended", key=session.key_id, peer=peer)

    def charge(self, caller: Caller, *, records: int = 0, size: int = 0) -> None:
        """Charge a request's records and bytes to the limits of its key."""
        self._limits.charge(caller.key_id, records=records, size=size, now=self._monotonic())

    def _identify(self, headers: Mapping[str, str], peer: str) -> Identity:
        ring = self._ring
        if ring.open:
            check_host(headers)
            return OPEN_ADMIN if self.settings.local_admin else OPEN
        key = key_in(headers)
        if not key and (token := session_in(headers, self.settings.public)):
            return self._identify_session(token)
        if not key:
            raise _CallerRefusedError(
                "missing_key", UnauthorizedError("an API key is required", hint=_HINT)
            )
        digest, now = digest_of(key), self._monotonic()
        wait = self._guard.wait(peer, digest, now)
        if wait > 0:
            raise _CallerRefusedError(
                "too_many_tries",
                RateLimitedError(
                    "too many wrong API keys came from your address", wait_seconds=wait
                ),
            )
        identity = ring.identify(key, self._now()) or self._identify_new(key, now)
        if identity is None:
            self._guard.failed(peer, digest, now)
            raise _CallerRefusedError(
                "unknown_key", UnauthorizedError("the API key is not valid", hint=_HINT)
            )
        identity = _active(identity)
        self._guard.succeeded(peer, digest)
        return identity

    def _identify_session(self, token: str) -> Identity:
        """Return the identity of a session.

        Wrong tokens are not counted as guesses, because tokens are too long to guess.
        """
        session, identity = self._sessions.find(token), None
        if session is not None:
            identity = self._ring.identify_session(session, token, self._now())
            if identity is None:  # its key may be too new for this process
                self.refresh()
                identity = self._ring.identify_session(session, token, self._now())
        if identity is None:
            raise _CallerRefusedError(
                "ended_session", UnauthorizedError("the session has ended; log in again")
            )
        return _active(identity)

    def _identify_new(self, key: str, now: float) -> Identity | None:
        """Reload the keys and look up a key that may be new."""
        if not id_in(key) or now - self._looked_at < LOOK_AGAIN_SECONDS:
            return None
        self._looked_at = now
        try:
            self.refresh()
        except CollectorError:
            return None  # the background thread logs the error
        return self._ring.identify(key, self._now())

    def _refused(self, reason: str, peer: str, key_id: str) -> None:
        self.metrics.refused.labels(reason).inc()
        known = {"key": key_id} if key_id else {}
        self.audit.note("request.refused", reason=reason, peer=peer, **known)

    def _run(self) -> None:
        readable = True
        while not self._stopping.wait(REFRESH_SECONDS):
            try:
                self.refresh()
                readable = True
            except Exception as error:  # without this thread no revocation takes effect
                if readable:
                    log.exception("keys_unreadable", reason=str(error))
                readable = False
            self.audit.flush()


class _CallerRefusedError(Exception):
    """Refusal with its reason for the metrics."""

    def __init__(self, reason: str, error: CollectorError) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error


def _active(identity: Identity) -> Identity:
    """Return the identity if its key is active, else refuse with its state.

    The state is not secret here: the caller holds the whole key.
    """
    if identity.state != "active":
        raise _CallerRefusedError(
            f"{identity.state}_key", UnauthorizedError(f"the API key is {identity.state}")
        )
    return identity


def _not_granted(scope: KeyScope, identity: Identity) -> ForbiddenError:
    if not identity.key_id:
        return ForbiddenError(
            f"this collector has no keys, so requests may only read and write; {scope.value} is"
            " needed",
            hint="start it with --local-admin (TRACEREEL_LOCAL_ADMIN=on), or make a key with"
            " `tracereel keys create --scope admin,read,write`; with a key made, every request"
            " needs one",
        )
    granted = ", ".join(sorted(identity.scopes))
    return ForbiddenError(f"this key has the scopes {granted}; {scope.value} is needed")
