"""The tools that an SSE agent says it calls: begun by a frame, ended by their own or by the next one."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tracereel import _context
from tracereel._recorder import Recorder
from tracereel._scopes.arguments import Arguments
from tracereel._scopes.base import Scope
from tracereel._scopes.calls import ToolScope, ToolSpec
from tracereel.providers.reading import get, json_object, text

ENDED: Final = frozenset({"completed", "complete", "done", "success", "finished", "ok"})
FAILED: Final = frozenset({"failed", "error"})
MAX_OPEN: Final = 64
"""Tools that may be at work at once; the oldest is taken as ended beyond that."""
_UNKNOWN: Final = object()


class SseToolError(Exception):
    """A tool of which the agent says that it failed, or whose agent failed while it was at work."""


class SseToolScope(ToolScope):
    """A call of a tool as the agent tells of it."""

    __slots__ = ("ended_by", "round")

    def __init__(self, recorder: Recorder, spec: ToolSpec, arguments: Arguments) -> None:
        self.round = 0
        self.ended_by = "own_frame"
        super().__init__(recorder, spec, arguments)

    def told(self, event: dict[str, Any], result: object) -> None:
        event["round"] = self.round
        # Without a frame of its own for the end, the duration is an upper bound.
        event["ended_by"] = self.ended_by
        if result is not _UNKNOWN:
            super().told(event, result)


class _OpenTool:
    __slots__ = ("id", "name", "scope", "tells_end")

    def __init__(self, scope: SseToolScope, name: str, call_id: str | None, tells_end: bool):
        self.scope = scope
        self.name = name
        self.id = call_id
        self.tells_end = tells_end


class Tools:
    """The tools of one execution that are at work."""

    def __init__(self, recorder: Recorder, around: Scope) -> None:
        self.calls = 0
        self._recorder = recorder
        self._around = around
        self._open: list[_OpenTool] = []

    @property
    def at_work(self) -> bool:
        """Whether a tool is at work that will tell its end: another one runs beside it."""
        return any(tool.tells_end for tool in self._open)

    @property
    def are_idle(self) -> bool:
        """Whether no tool is at work."""
        return not self._open

    def end_waiting(self) -> None:
        """Something else has come: tools that do not tell their end are over."""
        if not self._open:
            return
        for tool in self._open:
            if not tool.tells_end:
                self._complete(tool, _UNKNOWN, "next_frame")
        self._open = [tool for tool in self._open if tool.tells_end]

    def knows(self, payload: Mapping[str, Any]) -> bool:
        """Whether a frame speaks of a tool that is at work."""
        call_id = _id_of(payload)
        return any(tool.id == call_id for tool in self._open) if call_id else False

    def begin(self, payload: Mapping[str, Any], number: int) -> None:
        """A tool is called, in this round."""
        self.calls += 1
        name = text(get(payload, "tool", "name", "tool_name")) or "unknown"
        arguments, raw = json_object(get(payload, "args", "arguments", "input"))
        call_id = _id_of(payload)
        spec = ToolSpec(name, tool_type="function", tool_call_id=call_id, ids={}, inputs=None)
        given = arguments if raw is None else {"input": raw}
        with inside(self._around):
            scope = SseToolScope(self._recorder, spec, Arguments((), 0, (), given))
        scope.round = number
        tells_end = get(payload, "status", "state") is not None
        self._open.append(_OpenTool(scope, name, call_id, tells_end))
        if len(self._open) > MAX_OPEN:
            self._complete(self._open.pop(0), _UNKNOWN, "too_many_at_work")

    def end(self, payload: Mapping[str, Any]) -> bool:
        """A frame tells of the end of a tool; false where none of them is meant."""
        call_id, name = _id_of(payload), text(get(payload, "tool", "name", "tool_name"))
        for index in range(len(self._open) - 1, -1, -1):
            tool = self._open[index]
            if tool.id == call_id if call_id and tool.id else tool.name == name:
                del self._open[index]
                self._close(tool, payload)
                return True
        return False

    def end_all(self, *, error: BaseException | None, by: str) -> None:
        """The execution is over: with an error, with null where nobody waited for the end."""
        tools, self._open = self._open, []
        for tool in tools:
            tool.scope.ended_by = by
            if error is not None:
                tool.scope.fail(error)
            else:
                tool.scope.cancel()

    def _close(self, tool: _OpenTool, payload: Mapping[str, Any]) -> None:
        failed = _word(payload) in FAILED
        problem = get(payload, "error")
        if failed or problem is not None:
            message = problem if isinstance(problem, str) else get(problem, "message")
            tool.scope.fail(SseToolError(text(message) or "the tool failed"))
        else:
            found = get(payload, "result", "output")
            self._complete(tool, _UNKNOWN if found is None else found, "own_frame")

    @staticmethod
    def _complete(tool: _OpenTool, result: object, by: str) -> None:
        tool.scope.ended_by = by
        tool.scope.complete(result)


def tells_end(payload: Mapping[str, Any]) -> bool:
    """Whether a frame of a tool tells of its end."""
    word = _word(payload)
    return word in ENDED or word in FAILED or get(payload, "result", "output", "error") is not None


@contextmanager
def inside(scope: Scope) -> Iterator[None]:
    """Make a call current, whatever the context here says."""
    attachment = _context.attach(scope.execution, scope.span_context)
    try:
        yield
    finally:
        _context.detach(attachment)


def _word(payload: Mapping[str, Any]) -> str:
    return (text(get(payload, "status", "state")) or "").lower()


def _id_of(payload: Mapping[str, Any]) -> str | None:
    found = get(payload, "id", "call_id", "callId", "tool_call_id", "toolCallId")
    return str(found) if isinstance(found, (str, int)) and found != "" else None
