"""Access gate: authenticates requests, checks scopes and enforces rate limits."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from tracereel_collector.auth.audit import AuditLog
from tracereel_collector.auth.browsers import (
    ANY,
    OriginRefusedError,
    check_host,
    check_origin,
    parse_origins,
    parse_public_url,
    session_in,
)
from tracereel_collector.auth.claims import check_request
from tracereel_collector.auth.guard import GuessingGuard
from tracereel_collector.auth.keyring import Keyring, is_loopback, key_in, read_static_keys
from tracereel_collector.auth.keys import (
    DEFAULT_TENANT,
    GRANTABLE,
    ORDINARY,
    Key,
    KeyScope,
    digest_of,
    id_in,
)
from tracereel_collector.auth.keystore import KeyStore
from tracereel_collector.auth.limits import KeyLimits, RateLimitedError, Rates
from tracereel_collector.auth.sessions import FILE as SESSIONS_FILE
from tracereel_collector.auth.sessions import SessionRecord, SessionStore
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


class AccessGate:
    """Thread-safe access control for requests; call `start` first.

    Keys and sessions expire by `now_unix`. An invalid setting is a StartupError.
    """

    def __init__(
        self,
        settings: Settings,
        registry: CollectorRegistry,
        *,
        now_unix: Callable[[], float] = time.time,
    ) -> None:
        data_dir, limits_file = settings.data_dir, settings.data_dir / "limits.sqlite"
        self.metrics = AccessMetrics.register(registry)
        self.audit = AuditLog(
            data_dir / "audit",
            on_error=lambda lines: self.metrics.audit_lost.labels("unwritable").inc(lines),
        )
        self.keys = KeyStore(data_dir, audit=self.audit, now_unix=now_unix)
        self.origins = parse_origins(settings.cors_origins)
        self.public = parse_public_url(
            settings.public_url, trust_forwarded_proto=settings.trust_forwarded_proto == "on"
        )
        self._host = settings.host
        self._open_scopes = GRANTABLE if settings.local_admin == "on" else ORDINARY
        """Scopes of requests while no key was ever created."""
        self._now = now_unix
        self._ring = Keyring(tuple(read_static_keys(settings.api_keys).values()))
        self.has_several_tenants = False
        """Whether several tenants had an active key when the keys last changed."""
        self._sessions = SessionStore(data_dir / SESSIONS_FILE, now_unix=now_unix)
        self._guard = GuessingGuard(limits_file)
        rates = Rates(records=settings.rate_records, bytes=settings.rate_bytes)
        self._limits = KeyLimits(rates, limits_file)
        self._looked_at = float("-inf")
        self._refreshing = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="access", daemon=True)

    def start(self) -> None:
        """Check the keys and start the thread that keeps them current."""
        self.check()
        self._thread.start()

    def check(self) -> None:
        """Read the keys and check that the collector is not exposed without them."""
        try:
            self.refresh()
        except CollectorError as error:
            raise StartupError(error.message) from error
        if not self._ring.active_tenants(self._now()) and not is_loopback(self._host):
            raise StartupError(
                f"refusing to listen on {self._host} without API keys",
                hint="make one with `tracereel keys create`, or set TRACEREEL_API_KEYS=tenant:key,"
                " or listen on 127.0.0.1",
            )
        if self._ring.open and ANY in self.origins:
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
            self._ring = Keyring(self._ring.static, stored, needed=needed)
            self.has_several_tenants = len(self._ring.active_tenants(self._now())) > 1

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
            check_origin(headers, self.origins, self.public)
            caller = self._identify(headers, peer)
            key_id = caller.key_id
            if scope not in caller.scopes:
                raise _not_granted(scope, caller)
            check_request(headers, query, caller.tenant)
            if scope is KeyScope.WRITE:
                self._limits.check(key_id, time.monotonic())
        except CollectorError as error:
            self._count_refusal(error, peer, key_id)
            raise
        if key_id:
            self.audit.note(
                "key.used", key=key_id, tenant=caller.tenant, scope=scope.value, peer=peer
            )
        return caller

    def key_state(self, fingerprint: str, *, tenant: str) -> str:
        """Return the state of one of a tenant's keys by its fingerprint."""
        return self._ring.state_of(fingerprint, tenant=tenant, now_unix=self._now())

    def begin_session(self, caller: Caller, key: str) -> str:
        """Start a session with the scopes of the caller's key and return its token."""
        self.audit.act("session.created", key=caller.key_id, tenant=caller.tenant, peer=caller.peer)
        return self._sessions.begin(caller.key_id, digest_of(key))

    def session_record(self, token: str, caller: Caller, key: str) -> SessionRecord:
        """Return the record of a session that `begin_session` has started."""
        return self._sessions.record(token, caller.key_id, digest_of(key))

    def take_session(self, record: SessionRecord) -> None:
        """Begin or end a session that began or ended at another member of the group."""
        self._sessions.put(record)

    def end_session(self, headers: Mapping[str, str], *, peer: str) -> SessionRecord | None:
        """End the session of a request's cookie; return its record for the other members, if any."""
        try:
            check_origin(headers, self.origins, self.public)
        except OriginRefusedError as error:
            self._count_refusal(error, peer)
            raise
        token = session_in(headers, self.public)
        session = self._sessions.find(token) if token else None
        if token is None or session is None or not self._sessions.end(token):
            return None
        self.audit.note("session.ended", key=session.key_id, peer=peer)
        return self._sessions.record(token)

    def charge(self, caller: Caller, *, records: int = 0, size: int = 0) -> None:
        """Charge a request's records and bytes to the limits of its key."""
        self._limits.charge(caller.key_id, records=records, size=size, now=time.monotonic())

    def _identify(self, headers: Mapping[str, str], peer: str) -> Caller:
        ring = self._ring
        if ring.open:
            check_host(headers)
            return Caller(DEFAULT_TENANT, "", self._open_scopes, peer)
        secret = key_in(headers)
        if secret:
            key = self._key_of_secret(ring, secret, peer)
        elif token := session_in(headers, self.public):
            key = self._key_of_session(token)
        else:
            raise UnauthorizedError("an API key is required", hint=_HINT, reason="missing_key")
        return Caller(key.tenant, key.id, key.scopes, peer)

    def _key_of_secret(self, ring: Keyring, secret: str, peer: str) -> Key:
        digest, now = digest_of(secret), time.monotonic()
        wait = self._guard.wait(peer, digest, now)
        if wait > 0:
            raise RateLimitedError(
                "too many wrong API keys came from your address",
                wait_seconds=wait,
                reason="too_many_tries",
            )
        key = ring.identify(secret) or self._find_new(secret, now)
        if key is None:
            self._guard.failed(peer, digest, now)
            raise UnauthorizedError("the API key is not valid", hint=_HINT, reason="unknown_key")
        self._check_active(key)
        self._guard.succeeded(peer, digest)
        return key

    def _key_of_session(self, token: str) -> Key:
        """Return the key of a session.

        Wrong tokens are not counted as guesses, because tokens are too long to guess.
        """
        session, key = self._sessions.find(token), None
        if session is not None:
            key = self._ring.identify_session(session, token)
            if key is None:  # it may be too new for this process
                self.refresh()
                key = self._ring.identify_session(session, token)
        if key is None:
            raise UnauthorizedError("the session has ended; log in again", reason="ended_session")
        self._check_active(key)
        return key

    def _check_active(self, key: Key) -> None:
        # The state is not secret here: the caller holds the whole key.
        if (state := key.state(self._now())) != "active":
            raise UnauthorizedError(f"the API key is {state}", reason=f"{state}_key")

    def _find_new(self, secret: str, now: float) -> Key | None:
        """Reload the keys and look up a key that may be new."""
        if not id_in(secret) or now - self._looked_at < LOOK_AGAIN_SECONDS:
            return None
        self._looked_at = now
        try:
            self.refresh()
        except CollectorError:
            return None  # the background thread logs the error
        return self._ring.identify(secret)

    def _count_refusal(self, error: CollectorError, peer: str, key_id: str = "") -> None:
        if error.reason:
            self.metrics.refused.labels(error.reason).inc()
            known = {"key": key_id} if key_id else {}
            self.audit.note("request.refused", reason=error.reason, peer=peer, **known)

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


def _not_granted(scope: KeyScope, caller: Caller) -> ForbiddenError:
    if not caller.key_id:
        return ForbiddenError(
            f"this collector has no keys, so requests may only read and write; {scope.value} is"
            " needed",
            hint="start it with --local-admin (TRACEREEL_LOCAL_ADMIN=on), or make a key with"
            " `tracereel keys create --scope admin,read,write`; with a key made, every request"
            " needs one",
            reason="scope",
        )
    granted = ", ".join(sorted(caller.scopes))
    message = f"this key has the scopes {granted}; {scope.value} is needed"
    return ForbiddenError(message, reason="scope")
