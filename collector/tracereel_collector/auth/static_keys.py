"""Keys from the environment variable `TRACEREEL_API_KEYS`."""

import re
from dataclasses import dataclass
from typing import Final

from tracereel_collector.auth.keys import (
    MAX_KEY_CHARS,
    ORDINARY,
    KeyScope,
    check_tenant,
    parse_scopes,
)
from tracereel_collector.errors import BadRequestError, StartupError

MIN_KEY_CHARS: Final = 20
_KEY: Final = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class StaticKey:
    """Entry of the list: position, tenant, scopes and key."""

    position: int
    tenant: str
    scopes: frozenset[KeyScope]
    key: str


def read_static_keys(pairs: str) -> list[StaticKey]:
    """Read `tenant:key` and `tenant/scopes:key` entries, separated by commas.

    Raises:
        StartupError: an entry is malformed, or its key is too short.
    """
    found: list[StaticKey] = []
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
        if any(key == each.key for each in found):
            raise StartupError(f"{entry} has the key of another entry; expected keys of their own")
        try:
            granted = parse_scopes(scopes.replace("+", ",")) if slash else ORDINARY
            found.append(StaticKey(position, check_tenant(tenant), granted, key))
        except BadRequestError as error:
            raise StartupError(f"{entry}: {error.message}") from error
        if not granted <= ORDINARY:
            raise StartupError(
                f"{entry}: a key of the environment cannot have the scope admin;"
                " expected read, write or read+write",
                hint="make one with `tracereel keys create --scope admin`",
            )
    return found
