"""Which tools a model has asked for, so that their results, in a later request, find their call."""

from collections.abc import Iterable, Iterator

from tracereel import _native, _values
from tracereel.integrations._dialects import Result
from tracereel.providers.base import NormalizedEvent, ToolCall, ToolResult
from tracereel.providers.reading import plain_text

MAX_REMEMBERED = 1024


class ToolMemory:
    """The latest tool calls of a client's answers; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}
        """Id of a call → name of the tool."""
        self._told: dict[str, None] = {}
        self._lock = _native.RLock()

    def asked(self, calls: Iterable[ToolCall]) -> None:
        """An answer asks for these."""
        for call in calls:
            if not call.runs_at_provider:
                with self._lock:
                    self._waiting[call.id] = call.name
                    # Ids that are only the call's place in its answer come again and again.
                    self._told.pop(call.id, None)
                    _bound(self._waiting)

    def answered(
        self, results: Iterable[Result], provider: str, model: str
    ) -> Iterator[NormalizedEvent]:
        """A request brings these: those that were not told yet, as events."""
        for index, result in enumerate(results):
            with self._lock:
                call_id = result.call_id or self._by_name(result.name)
                name = self._waiting.pop(call_id, None) if call_id is not None else None
                if call_id is not None:
                    if call_id in self._told:
                        continue
                    self._told[call_id] = None
                    _bound(self._told)
            content = _values.plain(result.content)
            flat = plain_text(content)
            told = ToolResult(
                call_id=call_id or "",
                name=result.name or name,
                content=content if flat is None else flat,
                success=not result.failed,
                error=flat if result.failed else None,
            )
            yield NormalizedEvent(
                type="tool_response",
                original_index=index,
                provider=provider,
                model=model,
                content=flat,
                tool_result=told,
            )

    def _by_name(self, name: str | None) -> str | None:
        """The first call of a tool that still waits, for those that give their calls no ids."""
        return next((key for key, known in self._waiting.items() if known == name), None)


def _bound(known: dict[str, str] | dict[str, None]) -> None:
    while len(known) > MAX_REMEMBERED:
        del known[next(iter(known))]
