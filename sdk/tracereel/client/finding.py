"""Client methods for searching runs, sessions and agents."""

from collections.abc import Iterator
from typing import Literal, Unpack
from urllib.parse import quote

from tracereel.client.base import Asking
from tracereel.client.filters import Moment, RunFilters, Words, as_params, checked
from tracereel.client.models import (
    Agent,
    AgentPage,
    Conversation,
    Run,
    RunPage,
    Session,
    SessionPage,
)

Sort = Literal["started_at", "duration_ms", "cost_usd", "tokens", "events", "errors", "confidence"]


class Finding(Asking):
    """Requests about many runs."""

    def traces(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        sort: Sort = "started_at",
        order: Literal["asc", "desc"] = "desc",
        facets: Words = (),
        histogram: int = 0,
        **filters: Unpack[RunFilters],
    ) -> RunPage:
        """Return a page of runs that match the filters, by default the newest first."""
        params = {
            **as_params(checked(filters, RunFilters)),
            "limit": limit,
            "cursor": cursor,
            "sort": sort,
            "order": order,
            "facets": facets if isinstance(facets, str) else ",".join(facets) or None,
            "histogram": histogram or None,
        }
        return self.parsed(RunPage, self.fetch("GET", "/v1/traces", params).body)

    def find(
        self,
        *,
        most: int | None = None,
        page_size: int = 100,
        sort: Sort = "started_at",
        order: Literal["asc", "desc"] = "desc",
        **filters: Unpack[RunFilters],
    ) -> Iterator[Run]:
        """Yield matching runs (or the first `most`), fetching pages on demand."""
        cursor: str | None = None
        left = most
        while left is None or left > 0:
            size = page_size if left is None else min(page_size, left)
            page = self.traces(limit=size, cursor=cursor, sort=sort, order=order, **filters)
            yield from page.traces
            cursor = page.next
            if left is not None:
                left -= len(page.traces)
            if cursor is None or not page.traces:
                return

    def sessions(
        self,
        *,
        since: Moment | None = None,
        until: Moment | None = None,
        user: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> SessionPage:
        """Return a page of sessions, the most recently active first."""
        params = as_params({"since": since, "until": until, "user": user})
        params |= {"limit": limit, "cursor": cursor}
        return self.parsed(SessionPage, self.fetch("GET", "/v1/sessions", params).body)

    def find_sessions(
        self,
        *,
        since: Moment | None = None,
        until: Moment | None = None,
        user: str | None = None,
        most: int | None = None,
    ) -> Iterator[Session]:
        """Yield all sessions (or the first `most`), fetching pages on demand."""
        cursor: str | None = None
        left = most
        while left is None or left > 0:
            size = 100 if left is None else min(100, left)
            page = self.sessions(since=since, until=until, user=user, limit=size, cursor=cursor)
            yield from page.sessions
            cursor = page.next
            left = None if left is None else left - len(page.sessions)
            if cursor is None or not page.sessions:
                return

    def session(self, session_id: str) -> Conversation:
        """Return a session with its turns."""
        path = f"/v1/sessions/{quote(session_id, safe='')}"
        return self.parsed(Conversation, self.fetch("GET", path).body)

    def agents(
        self, *, since: Moment | None = None, until: Moment | None = None, limit: int = 100
    ) -> AgentPage:
        """Return statistics per agent, the busiest first; default is the last hour."""
        params = as_params({"since": since, "until": until, "limit": limit})
        return self.parsed(AgentPage, self.fetch("GET", "/v1/agents", params).body)

    def agent(
        self,
        name: str,
        *,
        since: Moment | None = None,
        until: Moment | None = None,
        points: int = 60,
    ) -> Agent:
        """Return statistics of one agent, in total and as a time series."""
        params = as_params({"since": since, "until": until, "points": points})
        return self.parsed(
            Agent, self.fetch("GET", f"/v1/agents/{quote(name, safe='')}", params).body
        )
