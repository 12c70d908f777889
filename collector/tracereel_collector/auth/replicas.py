"""Keys and login sessions on all members of a group: pushed when they change, keys also pulled.

Keys only ever gain a time of revocation, so that members agree in whatever order changes arrive.
Each member compares a digest with its peers every few seconds and fetches what differs. Sessions are only
pushed: a member that was away when one began asks for the key again.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

import structlog

from tracereel_collector.auth.gate import AccessGate
from tracereel_collector.auth.keys import Key, KeyScope
from tracereel_collector.auth.sessions import SessionRecord
from tracereel_collector.errors import BadRequestError
from tracereel_collector.group.peers import PeerAnswer, PeerClient

log = structlog.get_logger(__name__)

KEYS_PATH: Final = "/v1/group/keys"
SESSIONS_PATH: Final = "/v1/group/sessions"
PUSH_SECONDS: Final = 3.0


class AccessReplicas:
    """Keeps keys and sessions of this member and its peers the same; thread-safe."""

    def __init__(self, gate: AccessGate, peers: PeerClient) -> None:
        self._gate = gate
        self._peers = peers

    def digest(self) -> str:
        """Return a digest of all stored keys and their revocations."""
        return digest_of_keys(self._gate.keys.list())

    def pull(self, digests: Mapping[str, object]) -> None:
        """Fetch the keys of peers whose digest differs."""
        own = self.digest()
        for peer in self._peers.group.peers:
            theirs = digests.get(peer.name)
            if not isinstance(theirs, str) or theirs == own:
                continue
            answer = self._peers.ask(peer, "GET", KEYS_PATH)
            if answer.failure:
                log.warning("keys_not_fetched", member=peer.name, reason=answer.failure)
                continue
            self.take_keys(answer.document, by=peer.name)
            own = self.digest()

    def keys(self) -> dict[str, Any]:
        """Return all stored keys as a document for peers, without secrets."""
        return {"keys": [_key_document(key) for key in self._gate.keys.list()]}

    def take_keys(self, document: Any, *, by: str) -> None:
        """Merge the keys of a peer.

        Raises:
            BadRequestError: the document is not what `keys` returns.
        """
        if self._gate.keys.merge(_keys_of(document), by=f"member {by}"):
            self._gate.refresh()

    def push_key(self, key: Key) -> list[str]:
        """Send a new or revoked key to all peers; return the members that were not reached."""
        return _not_reached(
            self._peers.ask_all(
                "POST", KEYS_PATH, {"keys": [_key_document(key)]}, seconds=PUSH_SECONDS
            )
        )

    def push_session(self, record: SessionRecord) -> list[str]:
        """Send a session that began or ended to all peers; return the members not reached."""
        document = {
            "digest": _text(record.digest),
            "key_id": record.key_id,
            "proof": _text(record.proof),
            "expires_unix": record.expires_unix,
        }
        return _not_reached(
            self._peers.ask_all("POST", SESSIONS_PATH, document, seconds=PUSH_SECONDS)
        )

    def take_session(self, document: Any) -> None:
        """Begin or end a session as a peer did.

        Raises:
            BadRequestError: the document is not what `push_session` sends.
        """
        try:
            record = SessionRecord(
                digest=base64.b64decode(document["digest"], validate=True),
                key_id=str(document["key_id"]),
                proof=base64.b64decode(document["proof"], validate=True),
                expires_unix=int(document["expires_unix"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BadRequestError(f"not a session: {error}") from error
        self._gate.take_session(record)


def digest_of_keys(keys: Iterable[Key]) -> str:
    """Return a digest that differs if a key or a revocation differs."""
    lines = sorted(f"{key.id} {key.revoked_unix}" for key in keys)
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()


def _key_document(key: Key) -> dict[str, Any]:
    return {**asdict(key), "scopes": sorted(key.scopes), "digest": _text(key.digest)}


def _keys_of(document: Any) -> list[Key]:
    try:
        return [
            Key(
                **{
                    **each,
                    "scopes": frozenset(map(KeyScope, each["scopes"])),
                    "digest": base64.b64decode(each["digest"], validate=True),
                }
            )
            for each in document["keys"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise BadRequestError(f"not a list of keys: {error}") from error


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _not_reached(answers: Iterable[PeerAnswer]) -> list[str]:
    return [answer.member for answer in answers if answer.failure]
