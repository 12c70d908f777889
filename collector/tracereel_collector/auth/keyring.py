"""Lookup of a request's key among stored keys and static ones from `TRACEREEL_API_KEYS`."""

import base64
import binascii
import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tracereel_collector.auth.keys import (
    DEFAULT_TENANT,
    MAX_KEY_CHARS,
    ORDINARY,
    Key,
    check_tenant,
    digest_of,
    id_in,
    parse_scopes,
)
from tracereel_collector.auth.sessions import LoginSession
from tracereel_collector.errors import BadRequestError, StartupError

MIN_KEY_CHARS: Final = 20
_KEY: Final = re.compile(r"[!-~]+")
_NO_KEY: Final = Key(id="", tenant="", scopes=frozenset(), digest=bytes(32))
"""Compared with keys whose id is unknown."""
NO_FINGERPRINT: Final = "none"
"""Fingerprint of requests without a key."""


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def key_in(headers: Mapping[str, str]) -> str:
    """Return the key in a request's headers; keys in URLs would be logged."""
    key = headers.get("x-api-key") or ""
    if not key:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        key = token.strip() if scheme.lower() == "bearer" else ""
        if scheme.lower() == "basic":
            key = _password_in(token)
    return key


def _password_in(token: str) -> str:
    """Return the password of Basic credentials, which is the key; the user name may be anything."""
    try:
        return base64.b64decode(token, validate=True).decode("utf-8").partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def read_static_keys(pairs: str) -> dict[str, Key]:
    """Read `tenant:key` and `tenant/scopes:key` entries, separated by commas."""
    found: dict[str, Key] = {}
    for position, pair in enumerate(filter(None, (part.strip() for part in pairs.split(","))), 1):
        entry = f"TRACEREEL_API_KEYS: entry {position}"
        owner, _, key = pair.partition(":")
        tenant, slash, scopes = owner.partition("/")
        if not (tenant and key):
            raise StartupError(f"{entry} is not of the form tenant:key or tenant/scopes:key")
        if not MIN_KEY_CHARS <= len(key) <= MAX_KEY_CHARS or _KEY.fullmatch(key) is None:
            raise StartupError(
                f"{entry} has a key of {len(key)} characters; expected {MIN_KEY_CHARS} to"
                f" {MAX_KEY_CHARS} printable ASCII characters without spaces",
                hint="make a random one with `openssl rand -hex 24`, or use `tracereel keys create`",
            )
        if key in found:
            raise StartupError(f"{entry} has the key of another entry; expected keys of their own")
        try:
            granted = parse_scopes(scopes.replace("+", ",")) if slash else ORDINARY
            # Named by position: the digest of a weak key could be attacked offline.
            found[key] = Key(
                id=f"static-{position}",
                tenant=check_tenant(tenant),
                scopes=granted,
                digest=digest_of(key),
            )
        except BadRequestError as error:
            raise StartupError(f"{entry}: {error.message}") from error
        if not granted <= ORDINARY:
            raise StartupError(
                f"{entry}: a key of the environment cannot have the scope admin;"
                " expected read, write or read+write",
                hint="make one with `tracereel keys create --scope admin`",
            )
    return found


@dataclass(frozen=True, slots=True)
class Keyring:
    """Immutable set of all keys; replaced when one is created or revoked."""

    static: tuple[Key, ...] = ()
    stored: Mapping[str, Key] = field(default_factory=dict)
    needed: bool = False

    @property
    def all(self) -> list[Key]:
        """All keys, also expired and revoked ones."""
        return [*self.static, *self.stored.values()]

    @property
    def open(self) -> bool:
        """Whether no key was ever created; revoking the last one does not open access."""
        return not (self.needed or self.static or self.stored)

    def active_tenants(self, now_unix: float) -> set[str]:
        """Return the tenants that have an active key."""
        return {key.tenant for key in self.all if key.state(now_unix) == "active"}

    def identify(self, secret: str) -> Key | None:
        """Return the record of a key; None if it is unknown.

        The id in a key is public and selects the digest to compare with. An unknown id is compared with
        a dummy digest, and static keys are all compared, so that timing reveals nothing.
        """
        if len(secret) > MAX_KEY_CHARS:
            return None
        given = digest_of(secret)
        keys = self._candidates(id_in(secret))
        found = [key for key in keys if hmac.compare_digest(key.digest, given) and key.id]
        return found[0] if found else None

    def identify_session(self, session: LoginSession, token: str) -> Key | None:
        """Return the key of a session; None if it does not exist any more."""
        for key in self._candidates(session.key_id):
            if key.id == session.key_id and session.belongs_to(token, key.digest):
                return key
        return None

    def _candidates(self, key_id: str) -> list[Key]:
        return [*self.static, self.stored.get(key_id, _NO_KEY)]

    def state_of(self, fingerprint: str, *, tenant: str, now_unix: float) -> str:
        """Return the state of a tenant's key by its fingerprint, or `unknown`."""
        if self.open:
            return "active"
        if fingerprint == NO_FINGERPRINT:
            # Without keys all data belonged to the default tenant, which now needs a key.
            return "revoked" if tenant == DEFAULT_TENANT else "unknown"
        for key in self.all:
            if key.tenant == tenant and key.digest.hex().startswith(fingerprint):
                return key.state(now_unix)
        return "unknown"
