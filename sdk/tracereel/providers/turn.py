"""Builder of a turn: numbers events, pairs tool calls with results, and adds approvals."""

from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from tracereel.providers.answers import Answer, AnswerPiece
from tracereel.providers.base import (
    UNKNOWN_MODEL,
    EventType,
    Normalized,
    NormalizedEvent,
    Problem,
    StopReason,
    ToolCall,
    Usage,
    sum_known,
)
from tracereel.providers.stop_reasons import canonical_stop_reason
from tracereel.providers.tools import ToolExecution, ToolLedger
from tracereel.providers.waiting import read_approvals, read_interrupts


@dataclass(slots=True, kw_only=True)
class ModelTurn:
    """Events of one result."""

    session_id: str | None
    default_model: str | None
    provider: str | None
    keep_raw: bool
    user_messages: bool
    executions: list[ToolExecution]
    problems: list[Problem] = field(default_factory=list)
    _ledger: ToolLedger = field(init=False)
    _events: list[NormalizedEvent] = field(init=False, default_factory=list)
    _next: int = 0
    _model: str | None = None
    _answer_provider: str | None = None
    _usage: Usage | None = None
    _stop: tuple[StopReason | None, str | None] = (None, None)

    def __post_init__(self) -> None:
        self._ledger = ToolLedger(self.executions)

    def open(self) -> None:
        """Begin the turn with its own event."""
        self._add("session_start")

    def close(self) -> None:
        """End the turn with its own event."""
        stop, word = self._stop
        self._add("complete", stop_reason=stop or "success", stop_reason_raw=word)

    def add_answers(self, answers: list[Answer]) -> None:
        """Add messages in order; tool executions outside of messages follow their request."""
        for index, answer in enumerate(answers):
            if answer.role != "tool":
                self._add_executions()
            if answer.role == "assistant":
                self._add_assistant(answer, index)
            else:
                self._add_other(answer, index, _next_model(answers, index))
        self._add_executions()
        for execution in self._ledger.unasked():
            self._add_unasked(execution)

    def add_approvals(self, approvals: Any, interrupts: Any) -> None:
        """Add approvals and pending interrupts."""
        for approval in read_approvals(approvals):
            pending = structs.replace(approval, approved=None, resolved_at=None)
            self._add("approval_requested", approval=pending)
            if approval.approved is not None or approval.resolved_at is not None:
                self._add("approval_resolved", approval=approval)
        for approval in read_interrupts(interrupts):
            self._add("approval_requested", approval=approval)
            self._stop = ("paused", "interrupt")

    def result(self) -> Normalized:
        """Return the turn."""
        stop, word = self._stop
        return Normalized(
            events=tuple(self._events),
            provider=self.provider or self._answer_provider or "langchain",
            model=self._model or self.default_model or UNKNOWN_MODEL,
            usage=self._usage,
            stop_reason=stop,
            stop_reason_raw=word,
            problems=tuple(self.problems),
            duplicate_tool_events=self._ledger.duplicates,
        )

    def _add_assistant(self, answer: Answer, index: int) -> None:
        self._model = answer.model or self.default_model
        self._answer_provider = answer.provider
        first = len(self._events)
        events = message_events(answer, index) if answer.events is None else answer.events
        for event in events:
            self._keep(event, answer)
        problems = self._placed(answer, index)
        if len(self._events) == first:
            return  # an empty or repeated message: its events and tokens are already included
        last = events[-1]
        self._events[-1] = structs.replace(
            self._events[-1],
            usage=last.usage,
            stop_reason=last.stop_reason,
            stop_reason_raw=last.stop_reason_raw,
            problems=problems,
        )
        self._usage = sum_known(self._usage, last.usage)
        self._stop = (last.stop_reason, last.stop_reason_raw)

    def _add_other(self, answer: Answer, index: int, model: str | None) -> None:
        texts = [piece for piece in answer.pieces if piece.type == "user_message"]
        for piece in answer.pieces:
            if piece.type != "user_message":
                self._add_piece(answer, piece, index, self._model)
        if texts and self.user_messages:
            for piece in texts:
                self._add_piece(answer, piece, index, model or self._model)
        elif texts or not answer.pieces:
            self._next += 1  # user messages keep their position
        self._placed(answer, index)

    def _add_piece(self, answer: Answer, piece: AnswerPiece, index: int, model: str | None) -> None:
        self._keep(_piece_event(answer, piece, index, model), answer)

    def _keep(self, event: NormalizedEvent, answer: Answer) -> None:
        """Append an event of a message, unless it repeats a tool request or result."""
        if event.tool_call is not None:
            if not self._ledger.ask(event.tool_call, event.model):
                return
        elif (result := event.tool_result) is not None:
            paired, request = self._ledger.answer(result)
            if paired is None:
                return
            model = event.model
            if request is None:
                name = result.call_id or result.name or "a tool"
                message = f"no message asks for the result of {name[:80]!r}"
                answer.report("unmatched_tool_result", message, event.block_index, event.raw)
            else:
                model = request.model or UNKNOWN_MODEL
            event = structs.replace(event, tool_result=paired, model=model)
        self._append(event)

    def _add_executions(self) -> None:
        for execution in self._ledger.executed():
            self._add_execution(execution)

    def _add_execution(self, execution: ToolExecution) -> None:
        result, request = self._ledger.answer(execution.result)
        execution.is_used = True
        if result is not None:
            self._add(
                "tool_response",
                raw=execution.raw,
                content=result.content if isinstance(result.content, str) else None,
                tool_result=result,
                model=request.model if request else self._model,
            )

    def _add_unasked(self, execution: ToolExecution) -> None:
        """Add request and result of a tool execution that no message requested."""
        name = execution.name or "unknown"
        message = f"no message asks for the execution of {name[:80]!r}"
        problem = Problem(code="unmatched_tool_result", message=message, raw=execution.raw)
        self.problems.append(problem)
        call = ToolCall(id=execution.id, name=name, arguments=execution.arguments)
        if self._ledger.ask(call, self._model):
            self._add("tool_request", raw=execution.raw, tool_call=call, model=self._model)
        self._add_execution(execution)

    def _placed(self, answer: Answer, index: int) -> tuple[Problem, ...]:
        placed = tuple(
            structs.replace(each, message_index=index, raw=each.raw if self.keep_raw else None)
            for each in answer.problems
        )
        self.problems.extend(placed)
        return placed

    def _add(self, kind: EventType, **fields: Any) -> None:
        model = fields.pop("model", None) or UNKNOWN_MODEL
        provider = self.provider or self._answer_provider or "langchain"
        event = NormalizedEvent(
            type=kind, original_index=0, provider=provider, model=model, **fields
        )
        self._append(event)

    def _append(self, event: NormalizedEvent) -> None:
        """Append an event with its position, session and model."""
        model = event.model
        if model == UNKNOWN_MODEL:
            model = self._model or self.default_model or UNKNOWN_MODEL
        self._events.append(
            structs.replace(
                event,
                original_index=self._next,
                session_id=event.session_id or self.session_id,
                model=model,
                raw=event.raw if self.keep_raw else None,
            )
        )
        self._next += 1


def message_events(answer: Answer, index: int) -> list[NormalizedEvent]:
    """Return the events of an assistant message at a position of the turn, at least one."""
    events = [_piece_event(answer, piece, index, answer.model) for piece in answer.pieces]
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
        events.append(NormalizedEvent(type="content_refused", content=answer.refusal, **about))
    elif stop == "paused":
        events.append(NormalizedEvent(type="turn_paused", **about))
    if (failure := answer.failure) is not None:
        message = failure.message or None
        events.append(NormalizedEvent(type="error", content=message, failure=failure, **about))
    if not events:
        events.append(NormalizedEvent(type="assistant_message", content="", block_index=0, **about))
    events[-1] = structs.replace(
        events[-1],
        usage=answer.usage,
        stop_reason=stop,
        stop_reason_raw=answer.stop_word,
        problems=tuple(answer.problems),
    )
    return events


def _piece_event(
    answer: Answer, piece: AnswerPiece, index: int, model: str | None
) -> NormalizedEvent:
    call = piece.tool_call
    if call is not None:
        call = structs.replace(call, id=call.id or f"call_{index}_{piece.block_index}")
    about = _about(answer, index) | {"model": model or UNKNOWN_MODEL}
    return NormalizedEvent(
        type=piece.type,
        raw=piece.raw,
        content=piece.content,
        tool_call=call,
        tool_result=piece.tool_result,
        citations=piece.citations,
        block_index=piece.block_index,
        **about,
    )


def _about(answer: Answer, index: int) -> dict[str, Any]:
    return {
        "original_index": index,
        "provider": answer.provider,
        "model": answer.model or UNKNOWN_MODEL,
        "agent_name": answer.agent_name,
        "message_id": answer.message_id,
        "message_index": index,
        "candidate_index": answer.candidate_index,
    }


def _next_model(answers: list[Answer], index: int) -> str | None:
    """Return the model that responded to a message."""
    later = (each.model for each in answers[index:] if each.role == "assistant")
    return next(later, None)
