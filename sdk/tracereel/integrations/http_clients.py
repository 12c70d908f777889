"""Trace propagation for httpx clients and requests sessions.

Neither library is imported here.
"""

import functools
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tracereel._core import remote_identity
from tracereel._runtime import guard
from tracereel.propagation import CLOCK_HEADER, inject, observe_clock

ClientT = TypeVar("ClientT")
SessionT = TypeVar("SessionT")

_MARK = "_tracereel_hosts"


def trace_httpx(client: ClientT, *, hosts: Iterable[str] | None = None) -> ClientT:
    """Propagate the current run in requests of an `httpx` client; return the client.

    Args:
        hosts: patterns (`*.internal`) of the hosts that receive the ids of the run; default: all.
            Other hosts receive only the trace context.
    """
    with guard.Guard("httpx"):
        if not _mark(client, hosts):
            return client
        send, receive = _hooks(client)
        hooks: dict[str, list[Any]] = dict(client.event_hooks)  # type: ignore[attr-defined]
        if hasattr(client, "aclose"):
            hooks["request"] = [*hooks.get("request", ()), _asynchronous(send)]
            hooks["response"] = [*hooks.get("response", ()), _asynchronous(receive)]
        else:
            hooks["request"] = [*hooks.get("request", ()), send]
            hooks["response"] = [*hooks.get("response", ()), receive]
        client.event_hooks = hooks  # type: ignore[attr-defined]
    return client


def trace_requests(session: SessionT, *, hosts: Iterable[str] | None = None) -> SessionT:
    """Propagate the current run in requests of a `requests.Session`; return the session.

    Args:
        hosts: see `trace_httpx`.
    """
    with guard.Guard("requests"):
        if not _mark(session, hosts):
            return session
        send, receive = _hooks(session)
        plain: Callable[..., Any] = session.send  # type: ignore[attr-defined]

        # Wrap `send`, because requests has only response hooks; redirects pass here too.
        @functools.wraps(plain)
        def sending(request: Any, **options: Any) -> Any:
            send(request)
            response = plain(request, **options)
            receive(response)
            return response

        session.send = sending  # type: ignore[attr-defined]
    return session


def _mark(client: object, hosts: Iterable[str] | None) -> bool:
    """Set the host patterns of a client; return whether it still needs hooks."""
    known = hasattr(client, _MARK)
    patterns = None if hosts is None else tuple(host.lower() for host in hosts)
    setattr(client, _MARK, patterns)
    return not known


def _hooks(client: object) -> tuple[Callable[[Any], None], Callable[[Any], None]]:
    def send(request: Any) -> None:
        with guard.Guard("http"):
            patterns: tuple[str, ...] | None = getattr(client, _MARK, None)
            host = (urlsplit(str(request.url)).hostname or "").lower()
            known = patterns is None or any(fnmatchcase(host, pattern) for pattern in patterns)
            if not known:
                _withhold(request.headers)
            inject(request.headers, identity=known)

    def receive(response: Any) -> None:
        with guard.Guard("http"):
            observe_clock(response.headers.get(CLOCK_HEADER))

    return send, receive


def _withhold(headers: Any) -> None:
    """Remove our ids, because a redirect to another host repeats the headers."""
    members = remote_identity.read_baggage(
        remote_identity.header_values(headers, ["baggage"])["baggage"]
    )
    others = {name: v for name, v in members.items() if not name.startswith(remote_identity.PREFIX)}
    if len(others) < len(members):
        del headers["baggage"]
        if others:
            headers["baggage"] = remote_identity.write_baggage(others)


def _asynchronous(hook: Callable[[Any], None]) -> Callable[[Any], Any]:
    async def call(message: Any) -> None:
        hook(message)

    return call
