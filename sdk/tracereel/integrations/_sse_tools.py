"""Tools that an SSE agent reports in frames."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tracereel._core import context
from tracereel._core.executions.arguments import Arguments
from tracereel._core.executions.calls import ToolScope, ToolSpec
from tracereel._core.executions.scope import ExecutionScope
from tracereel._core.recorder import Recorder
from tracereel.providers.reading import get, json_object, text

ENDED: Final = frozenset({"completed", "complete", "done", "success", "finished", "ok"})
FAILED: Final = frozenset({"failed", "error"})
MAX_OPEN: Final = 64
"""Tools that may be open at once; beyond that the oldest is completed."""
_UNKNOWN: Final = object()


class SseToolError(Exception):
    """A tool failed, or its agent failed while the tool was running."""


class SseToolScope(ToolScope):
    """Tool call that an agent reports."""

    __slots__ = ("ended_by", "round")

    def __init__(self, recorder: Recorder, spec: ToolSpec, arguments: Arguments) -> None:
        self.round = 0
        self.ended_by = "own_frame"
        super().__init__(recorder, spec, arguments)

    def add_result(self, event: dict[str, Any], result: object) -> None:
        event["round"] = self.round
        # Without an end frame the duration is an upper bound.
        event["ended_by"] = self.ended_by
        if result is not _UNKNOWN:
            super().add_result(event, result)


class _OpenTool:
    __slots__ = ("id", "name", "reports_end", "scope")

    def __init__(self, scope: SseToolScope, name: str, call_id: str | None, reports_end: bool):
        self.scope = scope
        self.name = name
        self.id = call_id
        self.reports_end = reports_end


class Tools:
    """Open tools of one execution."""

    def __init__(self, recorder: Recorder, around: ExecutionScope) -> None:
        self.calls = 0
        self._recorder = recorder
        self._around = around
        self._open: list[_OpenTool] = []

    @property
    def is_open(self) -> bool:
        """Whether a tool is open."""
        return bool(self._open)

    @property
    def at_work(self) -> bool:
        """Whether a tool is open that will report its end."""
        return any(tool.reports_end for tool in self._open)

    def end_waiting(self) -> None:
        """Complete open tools that do not report their end."""
        if not self._open:
            return
        for tool in self._open:
            if not tool.reports_end:
                self._complete(tool, _UNKNOWN, "next_frame")
        self._open = [tool for tool in self._open if tool.reports_end]

    def knows(self, payload: Mapping[str, Any]) -> bool:
        """Return whether a frame concerns an open tool."""
        call_id = _id_of(payload)
        return any(tool.id == call_id for tool in self._open) if call_id else False

    def begin(self, payload: Mapping[str, Any], number: int) -> None:
        """Start a tool call in a round."""
        self.calls += 1
        name = text(get(payload, "tool", "name", "tool_name")) or "unknown"
        arguments, raw = json_object(get(payload, "args", "arguments", "input"))
        call_id = _id_of(payload)
        spec = ToolSpec(name, tool_type="function", tool_call_id=call_id, ids={}, inputs=None)
        given = arguments if raw is None else {"input": raw}
        with inside(self._around):
            scope = SseToolScope(self._recorder, spec, Arguments((), 0, (), given))
        scope.round = number
        reports_end = get(payload, "status", "state") is not None
        self._open.append(_OpenTool(scope, name, call_id, reports_end))
        if len(self._open) > MAX_OPEN:
            self._complete(self._open.pop(0), _UNKNOWN, "too_many_at_work")

    def end(self, payload: Mapping[str, Any]) -> bool:
        """End the tool that a frame names; return whether it was open."""
        call_id, name = _id_of(payload), text(get(payload, "tool", "name", "tool_name"))
        for index in range(len(self._open) - 1, -1, -1):
            tool = self._open[index]
            if tool.id == call_id if call_id and tool.id else tool.name == name:
                del self._open[index]
                self._close(tool, payload)
                return True
        return False

    def end_all(self, *, error: BaseException | None, by: str) -> None:
        """End all open tools: fail them with `error`, or cancel them if it is `None`."""
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


def is_end_frame(payload: Mapping[str, Any]) -> bool:
    """Return whether a tool frame reports the end of the tool."""
    word = _word(payload)
    return word in ENDED or word in FAILED or get(payload, "result", "output", "error") is not None


@contextmanager
def inside(scope: ExecutionScope) -> Iterator[None]:
    """Make a scope current, whatever the context."""
    attachment = context.attach(scope.execution, scope.span_context)
    try:
        yield
    finally:
        context.detach(attachment)


def _word(payload: Mapping[str, Any]) -> str:
    return (text(get(payload, "status", "state")) or "").lower()


def _id_of(payload: Mapping[str, Any]) -> str | None:
    found = get(payload, "id", "call_id", "callId", "tool_call_id", "toolCallId")
    return str(found) if isinstance(found, (str, int)) and found != "" else None
