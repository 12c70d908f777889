"""Tool calls requested by a model, to match them with results in later requests."""

from collections.abc import Iterable, Iterator

from tracereel._redact import values
from tracereel._runtime import gevent_compat
from tracereel.integrations._dialects import Result
from tracereel.providers.base import NormalizedEvent, ToolCall, ToolResult
from tracereel.providers.reading import as_data, plain_text

MAX_REMEMBERED = 1024


class ToolMemory:
    """Latest tool calls of a client; the oldest are dropped first."""

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}
        """Call id → tool name."""
        self._reported: dict[str, None] = {}
        self._lock = gevent_compat.RLock()

    def remember(self, calls: Iterable[ToolCall]) -> None:
        """Remember the tool calls of a response."""
        for call in calls:
            if not call.runs_at_provider:
                with self._lock:
                    self._waiting[call.id] = call.name
                    # Some clients use the position in the response as id, so ids repeat.
                    self._reported.pop(call.id, None)
                    _bound(self._waiting)

    def answered(
        self, results: Iterable[Result], provider: str, model: str
    ) -> Iterator[NormalizedEvent]:
        """Yield events for tool results that were not reported yet."""
        for index, result in enumerate(results):
            with self._lock:
                call_id = result.call_id or self._by_name(result.name)
                name = self._waiting.pop(call_id, None) if call_id is not None else None
                if call_id is not None:
                    if call_id in self._reported:
                        continue
                    self._reported[call_id] = None
                    _bound(self._reported)
            content = as_data(result.content)
            flat = plain_text(content)
            known = ToolResult(
                call_id=call_id or "",
                name=result.name or name,
                content=content if flat is None else flat,
                success=not result.failed,
                error=values.text(flat) if result.failed and flat is not None else None,
            )
            yield NormalizedEvent(
                type="tool_response",
                original_index=index,
                provider=provider,
                model=model,
                content=flat,
                tool_result=known,
            )

    def _by_name(self, name: str | None) -> str | None:
        """Return the first pending call of a tool, for providers without call ids."""
        return next((key for key, known in self._waiting.items() if known == name), None)


def _bound(known: dict[str, str] | dict[str, None]) -> None:
    while len(known) > MAX_REMEMBERED:
        del known[next(iter(known))]
