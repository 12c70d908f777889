"""Replay of a run as plain dictionaries: `trace_id`, `timeline`, `summary`."""

import json
from typing import Any

from tracereel.client.aio import AsyncClient
from tracereel.client.sync import Client
from tracereel.client.transport import DEFAULT_TIMEOUT


class AgentExecutionReplay:
    """Replays a run for debugging, from coroutines (`replay`) or plain code (`replay_sync`)."""

    def __init__(
        self,
        endpoint: str | None = None,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self._client = Client(endpoint, api_key, timeout)
        self._options = (endpoint, api_key, timeout)

    async def replay(self, trace_id: str) -> dict[str, Any]:
        """Return `{"trace_id", "timeline": [{"time", "event", "details"}], "summary"}` of a run.

        Raises:
            ClientError: the request failed.
        """
        async with AsyncClient(*self._options) as client:
            return _document((await client.replay(trace_id)).raw)

    async def get_events_by_trace(self, trace_id: str) -> list[dict[str, Any]]:
        """Return the events of a run in order, without spans of other instrumentations.

        Raises:
            ClientError: the request failed.
        """
        timeline = (await self.replay(trace_id))["timeline"]
        return [entry["details"] for entry in timeline if "event_type" in entry["details"]]

    def replay_sync(self, trace_id: str) -> dict[str, Any]:
        """Return the same as `replay`, for code that is not a coroutine.

        Raises:
            ClientError: the request failed.
        """
        return _document(self._client.replay(trace_id).raw)


def _document(raw: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(raw)
    return document
