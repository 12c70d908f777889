"""Tool requests and results of a turn: paired by id, each told once."""

from dataclasses import dataclass
from typing import Any

from tracereel.providers.base import ToolCall, ToolResult
from tracereel.providers.reading import as_data, get, mapping, plain_text, text


@dataclass(slots=True)
class Request:
    """A request, and whether it has its result."""

    call: ToolCall
    model: str | None
    is_answered: bool = False


@dataclass(slots=True)
class Execution:
    """What a graph wrote down of a tool it ran, beside the messages."""

    id: str
    name: str | None
    arguments: dict[str, Any]
    result: ToolResult
    is_used: bool = False
    raw: Any = None


class ToolLedger:
    """Which tools were asked for and which have answered."""

    def __init__(self, executions: list[Execution]) -> None:
        self._by_id: dict[str, Request] = {}
        self._order: list[Request] = []
        self._executions = executions
        self.duplicates = 0

    def ask(self, call: ToolCall, model: str | None) -> bool:
        """Notes a request; false where the very same one has been told already."""
        known = self._by_id.get(call.id)
        if known is not None and (known.call.name, known.call.arguments) == (
            call.name,
            call.arguments,
        ):
            self.duplicates += 1
            return False
        # A server that numbers its calls anew with each answer uses an id again: not the same call.
        request = Request(call, model)
        self._order.append(request)
        self._by_id[call.id] = request
        if call.provider_id:
            self._by_id[call.provider_id] = request
        return True

    def answer(self, result: ToolResult) -> tuple[ToolResult | None, Request | None]:
        """A result under its request's identity; null where that has been told already.

        A result without an id belongs to the first request that still waits for one.
        """
        request = self._by_id.get(result.call_id) if result.call_id else self._waiting(result.name)
        if request is None:
            return result, None
        if request.is_answered:
            self.duplicates += 1
            return None, request
        request.is_answered = True
        call = request.call
        content, success, error = result.content, result.success, result.error
        for execution in self._executions:
            if not execution.is_used and execution.id in (call.id, call.provider_id):
                execution.is_used = True
                told = execution.result
                success = success and told.success
                error = error or told.error
                content = told.content if content in (None, "") else content
                break
        paired = ToolResult(
            call_id=call.id,
            name=call.name,
            content=content,
            success=success,
            error=error,
            provider_id=call.provider_id,
            runs_at_provider=result.runs_at_provider,
        )
        return paired, request

    def _waiting(self, name: str | None) -> Request | None:
        for request in self._order:
            if not request.is_answered and name in (None, request.call.name):
                return request
        return None

    def executed(self) -> list[Execution]:
        """Executions of requests that no message has answered, in the order they ran."""
        found = []
        for execution in self._executions:
            request = self._by_id.get(execution.id)
            if request is not None and not execution.is_used:
                if request.is_answered:
                    execution.is_used = True
                    self.duplicates += 1
                else:
                    found.append(execution)
        return found

    def unasked(self) -> list[Execution]:
        """Executions that no message asked for."""
        return [each for each in self._executions if not each.is_used]


def read_execution(value: Any, position: int) -> Execution:
    """One entry of `tool_executions`, in either spelling."""
    data = mapping(as_data(value))
    identity = text(get(data, "toolUseId", "tool_use_id", "tool_call_id", "id"))
    name = text(get(data, "toolName", "tool_name", "name"))
    error = get(data, "error")
    result = get(data, "result", "output", "content")
    flat = plain_text(result)
    succeeded = data.get("success")
    success = succeeded if isinstance(succeeded, bool) else error is None
    identity = identity or f"execution_{position}"
    told = ToolResult(
        call_id=identity,
        name=name,
        content=result if flat is None else flat,
        success=success,
        error=None if success else (error if isinstance(error, str) else "failed"),
    )
    arguments = mapping(get(data, "args", "arguments", "input"))
    return Execution(identity, name, arguments, told, raw=data)
