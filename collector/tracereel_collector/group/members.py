"""Members of a group of collectors, from the settings, and the secret that they share."""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from tracereel_collector.config import Settings
from tracereel_collector.errors import ServiceUnavailableError, StartupError, UnauthorizedError

MAX_MEMBERS: Final = 32
MIN_SECRET_CHARS: Final = 20
LIST_HEADER: Final = "x-tracereel-group"
"""Digest of the sender's list of members."""
SENDER_HEADER: Final = "x-tracereel-member"
SECRET_HEADER: Final = "x-tracereel-group-secret"  # noqa: S105 - the name, not the secret
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_EXPECTED: Final = "expected name=http://host:port entries, separated by commas"


class OtherMembersError(ServiceUnavailableError, code="other_members"):
    """Two collectors of a group have different lists of members."""


@dataclass(frozen=True, slots=True)
class Member:
    """A collector of the group."""

    name: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """All members of a group, in the order of their names, and which of them this collector is."""

    name: str
    members: tuple[Member, ...]
    lost: frozenset[str] = frozenset()
    """Members whose disks are lost."""
    secret: str = field(repr=False)

    @classmethod
    def of(cls, settings: Settings) -> "Group | None":
        """Return the group of the settings; None for a collector on its own.

        Raises:
            StartupError: the settings do not describe a group.
        """
        if not settings.peers:
            return None
        members = _parse(settings.peers)
        # A member that leaves is not in the list: the queue knows whether it was in one.
        if not _NAME.fullmatch(settings.name):
            raise StartupError(
                f"TRACEREEL_NAME={settings.name[:80]!r}: expected one of"
                f" {', '.join(member.name for member in members)}, the names in TRACEREEL_PEERS"
            )
        lost = frozenset(filter(None, (each.strip() for each in settings.lost_peers.split(","))))
        if len(settings.group_secret) < MIN_SECRET_CHARS:
            raise StartupError(
                f"TRACEREEL_GROUP_SECRET: expected at least {MIN_SECRET_CHARS} characters",
                hint="the same for all members; `openssl rand -hex 24` makes one",
            )
        return cls(name=settings.name, members=members, lost=lost, secret=settings.group_secret)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all members."""
        return tuple(member.name for member in self.members)

    @property
    def peers(self) -> tuple[Member, ...]:
        """The other members."""
        return tuple(member for member in self.members if member.name != self.name)

    @property
    def digest(self) -> str:
        """Digest of the names: a member may move to another address, owners stay the same."""
        return hashlib.blake2b("\0".join(self.names).encode(), digest_size=8).hexdigest()

    def headers(self) -> dict[str, str]:
        """Return the headers of a request to a peer."""
        return {
            LIST_HEADER: self.digest,
            SECRET_HEADER: self.secret,
            SENDER_HEADER: self.name,
        }

    def check_secret(self, headers: Mapping[str, str]) -> None:
        """Check that a request comes from a member.

        Raises:
            UnauthorizedError: the secret is missing or another.
        """
        given = headers.get(SECRET_HEADER, "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self.secret.encode()):
            raise UnauthorizedError("this route is for members of the group")

    def check_list(self, headers: Mapping[str, str]) -> None:
        """Check that a request comes from a member with the same list.

        Raises:
            OtherMembersError: the lists differ; the same request succeeds when they do not.
        """
        if headers.get(LIST_HEADER) != self.digest:
            raise OtherMembersError(
                f"the sender has another list of members than {self.name}: {', '.join(self.names)}",
                hint="give all members the same TRACEREEL_PEERS",
            )


def _parse(text: str) -> tuple[Member, ...]:
    members = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        name, equals, url = entry.partition("=")
        try:
            parts = urlsplit(url)
            valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            valid = False
        if not (equals and valid and _NAME.fullmatch(name)):
            raise StartupError(f"TRACEREEL_PEERS has {entry[:100]!r}; {_EXPECTED}")
        if name in members:
            raise StartupError(f"TRACEREEL_PEERS names {name!r} twice; {_EXPECTED}")
        members[name] = Member(name, url.rstrip("/"))
    if not 1 <= len(members) <= MAX_MEMBERS:
        raise StartupError(
            f"TRACEREEL_PEERS has {len(members)} members; expected 1 to {MAX_MEMBERS},"
            " this collector included"
        )
    return tuple(members[name] for name in sorted(members))
