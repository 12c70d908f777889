"""A run as plain dictionaries: `trace_id`, `timeline`, `summary`."""

import json
from typing import Any

from tracereel.client.aio import AsyncClient
from tracereel.client.sync import Client
from tracereel.client.transport import DEFAULT_TIMEOUT


class AgentExecutionReplay:
    """Reads a run back for debugging, from coroutines (`replay`) and from plain code (`replay_sync`)."""

    def __init__(
        self,
        endpoint: str | None = None,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self._client = Client(endpoint, api_key, timeout)
        self._options = (endpoint, api_key, timeout)

    async def replay(self, trace_id: str) -> dict[str, Any]:
        """The run: `{"trace_id", "timeline": [{"time", "event", "details"}], "summary"}`.

        Raises:
            ClientError: one of its kinds.
        """
        async with AsyncClient(*self._options) as client:
            return _document((await client.replay(trace_id)).raw)

    def replay_sync(self, trace_id: str) -> dict[str, Any]:
        """The same, for code that is not a coroutine.

        Raises:
            ClientError: one of its kinds.
        """
        return _document(self._client.replay(trace_id).raw)


def _document(raw: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(raw)
    return document
