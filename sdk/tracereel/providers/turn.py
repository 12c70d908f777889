"""Builder of a turn: numbers events, pairs tool calls with results, and adds approvals."""

from collections.abc import Iterable
from typing import Any

import msgspec

from tracereel.providers.answers import Answer, AnswerPiece
from tracereel.providers.base import (
    UNKNOWN_MODEL,
    Approval,
    EventType,
    Normalized,
    NormalizedEvent,
    Problem,
    StopReason,
    ToolCall,
    Usage,
)
from tracereel.providers.stop_reasons import canonical_stop_reason
from tracereel.providers.tools import ToolExecution, ToolLedger
from tracereel.providers.waiting import read_approvals, read_interrupts


class ModelTurn:
    """Events of one result."""

    def __init__(
        self,
        *,
        session_id: str | None,
        default_model: str | None,
        provider: str | None,
        keep_raw: bool,
        user_messages: bool,
        executions: list[ToolExecution],
    ) -> None:
        self._session_id = session_id
        self._default_model = default_model
        self._provider = provider
        self._keep_raw = keep_raw
        self._user_messages = user_messages
        self._ledger = ToolLedger(executions)
        self._events: list[NormalizedEvent] = []
        self._problems: list[Problem] = []
        self._next = 0
        self._model: str | None = None
        self._speaker: str | None = None
        self._usage: Usage | None = None
        self._stop: tuple[StopReason | None, str | None] = (None, None)

    def report(self, problems: Iterable[Problem]) -> None:
        self._problems.extend(problems)

    def open(self) -> None:
        self._add("session_start")

    def close(self) -> None:
        stop, word = self._stop
        self._add("complete", stop_reason=stop or "success", stop_reason_raw=word)

    def tell(self, answers: list[Answer]) -> None:
        """Add messages in order; tool executions outside of messages follow their request."""
        for index, answer in enumerate(answers):
            if answer.role != "tool":
                self._tell_executions()
            if answer.role == "assistant":
                self._tell_assistant(answer, index)
            else:
                self._tell_other(answer, index, _next_model(answers, index))
        self._tell_executions()
        for execution in self._ledger.unasked():
            self._tell_unasked(execution)

    def tell_waits(self, approvals: Any, interrupts: Any) -> None:
        """Add approvals and pending interrupts."""
        for approval in read_approvals(approvals):
            self._add("approval_requested", approval=_asked(approval))
            if approval.approved is not None or approval.resolved_at is not None:
                self._add("approval_resolved", approval=approval)
        waiting = read_interrupts(interrupts)
        for approval in waiting:
            self._add("approval_requested", approval=approval)
        if waiting:
            self._stop = ("paused", "interrupt")

    def result(self) -> Normalized:
        model = self._model or self._default_model or UNKNOWN_MODEL
        stop, word = self._stop
        return Normalized(
            events=tuple(self._events),
            provider=self._provider or self._speaker or "langchain",
            model=model,
            usage=self._usage,
            stop_reason=stop,
            stop_reason_raw=word,
            problems=tuple(self._problems),
            duplicate_tool_events=self._ledger.duplicates,
        )

    def _tell_assistant(self, answer: Answer, index: int) -> None:
        self._model = answer.model or self._default_model
        self._speaker = answer.provider
        first = len(self._events)
        for piece in answer.pieces:
            self._tell_piece(answer, piece, index, self._model)
        stop, unknown = canonical_stop_reason(answer.stop_word, answer.provider)
        if unknown is not None:
            answer.problems.append(unknown)
        if answer.failure is not None and stop is None:
            stop = "error"
        if answer.refusal is not None and stop in (None, "success"):
            stop = "refused"
        stop = answer.forced_stop or stop
        about = _about(answer, index)
        if stop == "refused":
            self._add("content_refused", content=answer.refusal, **about)
        elif stop == "paused":
            self._add("turn_paused", **about)
        if answer.failure is not None:
            content = answer.failure.message or None
            self._add("error", content=content, failure=answer.failure, **about)
        if len(self._events) == first and answer.pieces:
            self._placed(answer, index)
            return  # a repeated message: its events and tokens are already included
        if len(self._events) == first:
            self._add("assistant_message", content="", block_index=0, **about)
        self._seal(
            usage=answer.usage,
            stop_reason=stop,
            stop_reason_raw=answer.stop_word,
            problems=self._placed(answer, index),
        )
        if answer.usage is not None:
            self._usage = answer.usage if self._usage is None else self._usage + answer.usage
        self._stop = (stop, answer.stop_word)

    def _tell_other(self, answer: Answer, index: int, model: str | None) -> None:
        told = [piece for piece in answer.pieces if piece.type != "user_message"]
        for piece in told:
            self._tell_piece(answer, piece, index, self._model)
        spoken = [piece for piece in answer.pieces if piece.type == "user_message"]
        if spoken and self._user_messages:
            for piece in spoken:
                self._tell_piece(answer, piece, index, model or self._model)
        elif spoken or not told:
            self._next += 1  # user messages keep their position
        self._placed(answer, index)

    def _tell_piece(
        self, answer: Answer, piece: AnswerPiece, index: int, model: str | None
    ) -> None:
        about = _about(answer, index) | {"block_index": piece.block_index, "model": model}
        call, result = piece.tool_call, piece.tool_result
        if call is not None:
            call = call if call.id else _with_id(call, f"call_{index}_{piece.block_index}")
            if not self._ledger.ask(call, model):
                return
        elif result is not None:
            told, request = self._ledger.answer(result)
            if told is None:
                return
            if request is None:
                name = result.call_id or result.name or "a tool"
                message = f"nobody asked for the result of {name[:80]!r}"
                answer.report("unmatched_tool_result", message, piece.block_index, piece.raw)
            else:
                about["model"] = request.model
            result = told
        self._add(
            piece.type,
            content=piece.content,
            tool_call=call,
            tool_result=result,
            citations=piece.citations,
            raw=piece.raw if self._keep_raw else None,
            **about,
        )

    def _tell_executions(self) -> None:
        for execution in self._ledger.executed():
            self._tell_execution(execution)

    def _tell_execution(self, execution: ToolExecution) -> None:
        result, request = self._ledger.answer(execution.result)
        execution.is_used = True
        if result is not None:
            content = result.content if isinstance(result.content, str) else None
            self._add(
                "tool_response",
                content=content,
                tool_result=result,
                model=request.model if request else self._model,
                raw=execution.raw if self._keep_raw else None,
            )

    def _tell_unasked(self, execution: ToolExecution) -> None:
        """Add request and result of a tool execution that no message requested."""
        name = execution.name or "unknown"
        message = f"no message asks for the execution of {name[:80]!r}"
        problem = Problem(code="unmatched_tool_result", message=message, raw=execution.raw)
        self._problems.append(problem)
        call = ToolCall(id=execution.id, name=name, arguments=execution.arguments)
        if self._ledger.ask(call, self._model):
            raw = execution.raw if self._keep_raw else None
            self._add("tool_request", tool_call=call, model=self._model, raw=raw)
        self._tell_execution(execution)

    def _placed(self, answer: Answer, index: int) -> tuple[Problem, ...]:
        placed = tuple(
            Problem(
                code=each.code,
                message=each.message,
                message_index=index,
                block_index=each.block_index,
                raw=each.raw if self._keep_raw else None,
            )
            for each in answer.problems
        )
        self._problems.extend(placed)
        return placed

    def _add(self, kind: EventType, **fields: Any) -> None:
        model = fields.pop("model", None) or self._model or self._default_model or UNKNOWN_MODEL
        provider = fields.pop("provider", None) or self._provider or self._speaker or "langchain"
        event = NormalizedEvent(
            type=kind,
            original_index=self._next,
            session_id=self._session_id,
            model=model,
            provider=provider,
            **fields,
        )
        self._events.append(event)
        self._next += 1

    def _seal(self, **fields: Any) -> None:
        """Set fields of the whole response on its last event."""
        self._events[-1] = msgspec.structs.replace(self._events[-1], **fields)


def _about(answer: Answer, index: int) -> dict[str, Any]:
    return {
        "provider": answer.provider,
        "agent_name": answer.agent_name,
        "message_id": answer.message_id,
        "message_index": index,
        "candidate_index": answer.candidate_index,
    }


def _next_model(answers: list[Answer], index: int) -> str | None:
    """Return the model that responded to a message."""
    later = (each.model for each in answers[index:] if each.role == "assistant")
    return next(later, None)


def _with_id(call: ToolCall, identity: str) -> ToolCall:
    return ToolCall(
        id=identity,
        name=call.name,
        arguments=call.arguments,
        arguments_text=call.arguments_text,
        runs_at_provider=call.runs_at_provider,
    )


def _asked(approval: Approval) -> Approval:
    return Approval(
        id=approval.id,
        tool_name=approval.tool_name,
        question=approval.question,
        requested_at=approval.requested_at,
    )
