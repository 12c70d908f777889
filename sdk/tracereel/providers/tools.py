"""Matching and deduplication of tool requests and results in a turn."""

from dataclasses import dataclass
from typing import Any

from msgspec import structs

from tracereel.providers.base import ToolCall, ToolResult
from tracereel.providers.reading import as_data, first_text, get, mapping, plain_text


@dataclass(slots=True)
class ToolRequest:
    """Tool request, and whether it has a result."""

    call: ToolCall
    model: str | None
    is_answered: bool = False


@dataclass(slots=True)
class ToolExecution:
    """Tool execution that a graph recorded outside of its messages."""

    id: str
    name: str | None
    arguments: dict[str, Any]
    result: ToolResult
    is_used: bool = False
    raw: Any = None


class ToolLedger:
    """Tool requests and their results."""

    def __init__(self, executions: list[ToolExecution]) -> None:
        self._by_id: dict[str, ToolRequest] = {}
        self._order: list[ToolRequest] = []
        self._executions = executions
        self.duplicates = 0

    def ask(self, call: ToolCall, model: str | None) -> bool:
        """Record a request; return False if it is a duplicate."""
        known = self._by_id.get(call.id)
        if known is not None and (known.call.name, known.call.arguments) == (
            call.name,
            call.arguments,
        ):
            self.duplicates += 1
            return False
        # Some servers restart numbering with each response, so the same id may be another call.
        request = ToolRequest(call, model)
        self._order.append(request)
        self._by_id[call.id] = request
        if call.provider_id:
            self._by_id[call.provider_id] = request
        return True

    def answer(self, result: ToolResult) -> tuple[ToolResult | None, ToolRequest | None]:
        """Match a result with its request; return `None` for a duplicate.

        A result without an id belongs to the first pending request.
        """
        request = self._by_id.get(result.call_id) if result.call_id else self._waiting(result.name)
        if request is None:
            return result, None
        if request.is_answered:
            self.duplicates += 1
            return None, request
        request.is_answered = True
        call = request.call
        paired = structs.replace(
            result, call_id=call.id, name=call.name, provider_id=call.provider_id
        )
        for execution in self._executions:
            if not execution.is_used and execution.id in (call.id, call.provider_id):
                execution.is_used = True
                executed, content = execution.result, paired.content
                paired = structs.replace(
                    paired,
                    content=executed.content if content in (None, "") else content,
                    success=paired.success and executed.success,
                    error=paired.error or executed.error,
                )
                break
        return paired, request

    def _waiting(self, name: str | None) -> ToolRequest | None:
        for request in self._order:
            if not request.is_answered and name in (None, request.call.name):
                return request
        return None

    def executed(self) -> list[ToolExecution]:
        """Return executions of requests without a result message, in order."""
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

    def unasked(self) -> list[ToolExecution]:
        """Return executions that no message requested."""
        return [each for each in self._executions if not each.is_used]


def read_execution(value: Any, position: int) -> ToolExecution:
    """Read one entry of `tool_executions`, in camel or snake case."""
    data = mapping(as_data(value))
    identity = first_text(data, "toolUseId", "tool_use_id", "tool_call_id", "id")
    name = first_text(data, "toolName", "tool_name", "name")
    error = get(data, "error")
    result = get(data, "result", "output", "content")
    flat = plain_text(result)
    succeeded = data.get("success")
    success = succeeded if isinstance(succeeded, bool) else error is None
    identity = identity or f"execution_{position}"
    read = ToolResult(
        call_id=identity,
        name=name,
        content=result if flat is None else flat,
        success=success,
        error=None if success else (error if isinstance(error, str) else "failed"),
    )
    arguments = mapping(get(data, "args", "arguments", "input"))
    return ToolExecution(identity, name, arguments, read, raw=data)
