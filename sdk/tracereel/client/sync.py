"""Synchronous client with one method per request to a collector."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Unpack

from tracereel.client.filters import TailFilters, as_params, checked
from tracereel.client.finding import Finding
from tracereel.client.keeping import Keeping
from tracereel.client.models import SqlAnswer
from tracereel.client.reading import ReadingMethods
from tracereel.client.streams import EventStream, Message
from tracereel.client.transport import Answer, Params


class Client(ReadingMethods, Finding, Keeping):
    """Client of a collector; one connection per call, stateless, safe to share between threads.

    Endpoint and key default to `TRACEREEL_ENDPOINT` and `TRACEREEL_API_KEY`. Every method raises a
    subclass of `ClientError` on failure.
    """

    def get(self, path: str, params: Params | None = None) -> Answer:
        """Send a GET request and return the response of any status.

        Redirects are not followed, because they would carry the key.
        """
        return self.transport.ask("GET", path, params=params)

    def tail(
        self,
        *,
        last_event_id: str | None = None,
        reconnect: bool = True,
        on_notice: Callable[[Message], None] | None = None,
        **filters: Unpack[TailFilters],
    ) -> EventStream:
        """Stream newly acknowledged events; reconnects when the connection breaks."""
        params = as_params(checked(filters, TailFilters))
        return EventStream(
            lambda seen: self.stream("/v1/tail", params, seen),
            last_event_id=last_event_id,
            reconnect=reconnect,
            on_notice=on_notice,
        )

    def sql(
        self, query: str, parameters: Mapping[str, Any] | None = None, *, limit: int = 1000
    ) -> SqlAnswer:
        """Run one SELECT on the tenant's rows; `{name:Type}` marks parameters."""
        body = json.dumps({"query": query, "parameters": dict(parameters or {})}).encode()
        answer = self.transport.fetch(
            "POST",
            "/v1/sql",
            params={"limit": limit, "format": "json"},
            body=body,
            headers={"Content-Type": "application/json"},
        )
        return self.parsed(SqlAnswer, answer.body)
