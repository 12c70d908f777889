"""The client: every question that can be put to a collector, one method each."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Unpack

from tracereel.client.filters import TailFilters, as_params, checked
from tracereel.client.finding import Finding
from tracereel.client.keeping import Keeping
from tracereel.client.models import SqlAnswer
from tracereel.client.reading import Reading
from tracereel.client.sse import Message
from tracereel.client.streams import EventStream
from tracereel.client.transport import Answer, Params


class Client(Reading, Finding, Keeping):
    """Asks a collector; one connection per call, no state, safe to share between threads.

    Endpoint and key come from `TRACEREEL_ENDPOINT` and `TRACEREEL_API_KEY` unless given.
    Every method raises a `ClientError` of one of its kinds when it does not get its answer.
    """

    def get(self, path: str, params: Params | None = None) -> Answer:
        """One GET, whatever the status; redirects are not followed (they would carry the key)."""
        return self.transport.ask("GET", path, params=params)

    def tail(
        self,
        *,
        last_event_id: str | None = None,
        reconnect: bool = True,
        on_notice: Callable[[Message], None] | None = None,
        **filters: Unpack[TailFilters],
    ) -> EventStream:
        """What the collector acknowledges, as it does; goes on by itself when the connection breaks."""
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
        """The answer to one SELECT over the tenant's own rows; `{name:Type}` are parameters."""
        body = json.dumps({"query": query, "parameters": dict(parameters or {})}).encode()
        answer = self.transport.fetch(
            "POST",
            "/v1/sql",
            params={"limit": limit, "format": "json"},
            body=body,
            headers={"Content-Type": "application/json"},
        )
        return self.parsed(SqlAnswer, answer.body)
