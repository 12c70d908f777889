"""Requests to the other members: one each, all at once, within a time limit."""

import json
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from tracereel._export.http_client import HTTP_ERRORS, HttpConnection, HttpResponse
from tracereel_collector.group.members import Group, Member

ASK_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 2.0
"""Interval between two looks at the peers."""
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
AT_ONCE: Final = 4
"""Requests to one member at the same time; more wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerAnswer:
    """Answer of a member, or why there is none."""

    member: str
    status: int = 0
    """0 if no answer arrived."""
    document: Any = None
    failure: str = ""
    """Reason in words if the member refused the request; empty if it succeeded."""


class PeerClient:
    """Sends requests to the peers of a group; thread-safe."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self._pool = ThreadPoolExecutor(
            max(1, AT_ONCE * len(group.peers)), thread_name_prefix="ask-peer"
        )

    def close(self) -> None:
        """Stop without waiting for questions that are under way."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def ask_all(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        seconds: float = ASK_SECONDS,
    ) -> list[PeerAnswer]:
        """Send a request to every peer and return the answers, in the order of their names."""
        asked = [
            self._pool.submit(self.ask, peer, method, path, body, seconds=seconds)
            for peer in self.group.peers
        ]
        return [each.result() for each in asked]

    def ask(
        self,
        peer: Member,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        seconds: float = ASK_SECONDS,
    ) -> PeerAnswer:
        """Send a request to one peer; failures are answers too."""
        connection = connect(self.group, peer, seconds=seconds)
        data = None if body is None else json.dumps(body).encode()
        try:
            return answer_of(peer, connection.request(method, path, data))
        except HTTP_ERRORS as error:
            return no_answer(peer, error)
        finally:
            connection.close()


def connect(group: Group, peer: Member, *, seconds: float) -> HttpConnection:
    """Return a connection to a peer, without proxies, for one thread."""
    return HttpConnection(
        peer.url,
        headers={**group.headers(), "content-type": "application/json"},
        timeout=seconds,
        max_body_bytes=MAX_ANSWER_BYTES,
        proxies=False,
    )


def answer_of(peer: Member, response: HttpResponse) -> PeerAnswer:
    """Return a peer's response as an answer."""
    try:
        document = json.loads(response.body or b"null")
    except ValueError:
        document = None
    failure = ""
    if not 200 <= response.status < 300:
        error = document.get("error") if isinstance(document, dict) else None
        said = error.get("message") if isinstance(error, dict) else None
        failure = f"HTTP {response.status}{f': {said}' if said else ''}"[:300]
    return PeerAnswer(member=peer.name, status=response.status, document=document, failure=failure)


def no_answer(peer: Member, error: Exception) -> PeerAnswer:
    """Return the answer of a peer that did not answer."""
    return PeerAnswer(member=peer.name, failure=f"{type(error).__name__}: {error}"[:300])


class PeerStates:
    """State of each peer; updated by `look`."""

    def __init__(self, peers: PeerClient) -> None:
        self._peers = peers
        self._lock = threading.Lock()
        self._states: dict[str, dict[str, Any]] = {
            peer.name: {"state": "unknown"} for peer in peers.group.peers
        }

    def look(self) -> dict[str, dict[str, Any]]:
        """Request the state of every peer; return that of those with the same list of members."""
        group = self._peers.group
        states: dict[str, dict[str, Any]] = {}
        hellos = {}
        for answer in self._peers.ask_all("GET", "/v1/group/hello", seconds=2.0):
            hello = answer.document if isinstance(answer.document, dict) else {}
            if answer.failure:
                state = {"state": "no_answer", "reason": answer.failure}
            elif hello.get("name") != answer.member:
                state = {"state": "other_name", "reason": f"its name is {hello.get('name')!r}"}
            elif hello.get("list") != group.digest:
                names = ", ".join(map(str, hello.get("members") or ()))
                state = {"state": "other_members", "reason": f"its members are {names}"[:300]}
            else:
                state = {"state": "ok" if hello.get("active") else "waiting"}
                hellos[answer.member] = hello
            states[answer.member] = state
        with self._lock:
            self._states = states
        return hellos

    def document(self) -> dict[str, dict[str, Any]]:
        """Return the last known state of each peer by name."""
        with self._lock:
            return {name: dict(state) for name, state in self._states.items()}
