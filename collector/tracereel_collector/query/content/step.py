"""Query of `GET /v1/traces/{trace_id}/steps/{step_id}/content`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec

from tracereel._runtime.clock import otel_trace_id
from tracereel.content import (
    Content,
    Message,
    ModelCallContent,
    ValueContent,
    answered,
    asked,
    state_of,
)
from tracereel_collector.errors import StepNotFoundError
from tracereel_collector.query.content.earlier import digests, repeated
from tracereel_collector.query.content.from_events import call_messages, content_of_events, decoded
from tracereel_collector.query.content.from_span import content_of_span, raw_of_span
from tracereel_collector.query.content.rows import (
    ContentLog,
    ContentSpan,
    EarlierCall,
    calls_before,
    logs_of,
    span_of,
)
from tracereel_collector.query.content.span_messages import span_messages
from tracereel_collector.query.run.events import EventRow
from tracereel_collector.query.run.rows import RunReader
from tracereel_collector.query.run.steps import RunStep, steps_of
from tracereel_collector.query.run.tree import walk
from tracereel_collector.query.trace import MAX_EVENTS_OF_STEP, Traces

_MODEL: Final = "llm"
_AGENTS: Final = ("agent", "pipeline", "workflow")
"""Kinds of steps whose question and answer may be those of the model calls inside."""

_UNANSWERED: Final = ("failed", "retried", "crashed", "cancelled", "running")


@dataclass(frozen=True, slots=True)
class _Found:
    """A step and where it was found."""

    kind: str
    trace_id: str
    began: int
    events: Sequence[EventRow]
    traces: Sequence[str]
    """OpenTelemetry traces that may have its span."""


@dataclass(frozen=True, slots=True)
class StepContent:
    """Reader of the content of one step."""

    reader: RunReader
    traces: Traces

    def document(self, tenant: str, trace_id: str, step_id: str, *, raw: bool = False) -> bytes:
        """Return the content of a step as JSON; `raw` adds the sent fields.

        Raises:
            UnknownResourceError: there is no such run.
            StepNotFoundError: the run has no such step.
        """
        content, sent = self._read(tenant, trace_id, step_id, raw=raw)
        body: dict[str, Any] = content.model_dump(mode="json", exclude_none=True)
        if sent is not None:
            body["raw"] = sent
        return msgspec.json.encode(body)

    def content(self, tenant: str, trace_id: str, step_id: str) -> Content:
        """Return the content of a step."""
        return self._read(tenant, trace_id, step_id, raw=False)[0]

    def _read(
        self, tenant: str, trace_id: str, step_id: str, *, raw: bool
    ) -> tuple[Content, dict[str, Any] | None]:
        found = self._quick(tenant, trace_id, step_id)
        span: ContentSpan | None = None
        if found is None:
            span = span_of(self.reader.store, tenant, [otel_trace_id(trace_id)], step_id)
            if span is not None:
                found = _of_span(trace_id, span)
        if found is None:
            found = self._in_tree(tenant, trace_id, step_id)
        payloads = self._payloads(tenant, found)
        events = [decoded(payload) for payload in payloads]
        if span is None:
            span = span_of(self.reader.store, tenant, found.traces, step_id)
        logs = self._logs(tenant, found.traces, step_id)
        content = _content(found.kind, events, span, logs)
        if isinstance(content, ModelCallContent) and content.input:
            content = self._compared(tenant, found, step_id, content)
        if isinstance(content, ValueContent) and _may_ask(found, span):
            content = self._asked_inside(tenant, trace_id, step_id, content)
        if isinstance(content, ValueContent):
            sides = (state_of(content.input).messages, state_of(content.output).messages)
            content = content.model_copy(
                update=dict(zip(("input_messages", "output_messages"), sides, strict=True))
            )
        if not raw:
            return content, None
        sent: dict[str, Any] = {}
        if payloads:
            sent["events"] = [msgspec.Raw(payload.encode()) for payload in payloads]
        if span is not None:
            sent.update(raw_of_span(span, logs()))
        return content, sent

    def _quick(self, tenant: str, trace_id: str, step_id: str) -> _Found | None:
        """Find a step by its own events; a long run need not be read for it."""
        events = self.reader.step_rows(tenant, trace_id, step_id).events
        if not events or not all(row.span_id for row in events):
            return None
        steps, _ = steps_of(events, ())
        return next((_of_step(step) for step in steps if step.id == step_id), None)

    def _in_tree(self, tenant: str, trace_id: str, step_id: str) -> _Found:
        """Find a step in the whole run: steps without spans, and those of child runs."""
        for step in self.traces.run(tenant, trace_id).steps:
            if step.id == step_id:
                return _of_step(step)
        raise StepNotFoundError(
            f"run {trace_id!r} has no step {step_id[:80]!r}", hint="see `id` of its steps"
        )

    def _payloads(self, tenant: str, found: _Found) -> list[str]:
        numbers = [row.sequence_number for row in found.events[:MAX_EVENTS_OF_STEP]]
        return self.reader.payloads(tenant, found.trace_id, numbers) if numbers else []

    def _logs(
        self, tenant: str, traces: Sequence[str], span_id: str
    ) -> Callable[[], Sequence[ContentLog]]:
        return cache(lambda: logs_of(self.reader.store, tenant, traces, span_id))

    def _compared(
        self, tenant: str, found: _Found, step_id: str, content: ModelCallContent
    ) -> ModelCallContent:
        """Mark the messages that an earlier call of the run had too."""
        calls = calls_before(
            self.reader.store,
            tenant,
            found.traces,
            trace_id=found.trace_id,
            step_id=step_id,
            before=found.began,
        )
        own, best, best_step = digests(content.input), 0, None
        for call in calls:
            given, said = self._messages(tenant, found, call)
            same = repeated(content.input, own, digests([*given, *said]))
            if same > best:
                best, best_step = same, call.step_id
            if same >= len(given) > 0:  # it continues that call
                break
        return content.model_copy(update={"earlier": best, "earlier_step": best_step})

    def _asked_inside(
        self, tenant: str, trace_id: str, step_id: str, content: ValueContent
    ) -> ValueContent:
        """Take question and answer from the model calls of an agent that lacks them itself.

        An agent without model calls has its summaries instead. One that did not succeed is not answered by
        what a model said inside.
        """
        lacks_question = content.asked is None and isinstance(content.input, str | None)
        lacks_answer = content.answered is None and isinstance(content.output, str | None)
        if not lacks_question and not lacks_answer:
            return content
        tree = self.traces.run(tenant, trace_id)
        top = next((step for step in tree.steps if step.id == step_id), None)
        calls = [step for step in walk([top] if top else []) if step.kind == _MODEL]
        question, answer = content.asked, content.answered
        if calls and lacks_question:
            question = asked(self._of_call(tenant, calls[0])[0])
        if calls and lacks_answer and top is not None and top.status not in _UNANSWERED:
            answer = answered(self._of_call(tenant, calls[-1])[1])
        question, answer = question or asked(content.input), answer or answered(content.output)
        return content.model_copy(update={"asked": question, "answered": answer})

    def _of_call(self, tenant: str, step: RunStep) -> tuple[list[Any], list[Any]]:
        """Return the messages of a model call as data."""
        found = _of_step(step)
        number = step.ending.sequence_number
        call = EarlierCall(step.id, number, step.start, step.end or step.start)
        given, said = self._messages(tenant, found, call)
        return [each.model_dump() for each in given], [each.model_dump() for each in said]

    def _messages(
        self, tenant: str, found: _Found, call: EarlierCall
    ) -> tuple[Sequence[Message], Sequence[Message]]:
        if call.sequence_number:
            numbers = [call.sequence_number]
            for payload in self.reader.payloads(tenant, found.trace_id, numbers):
                given, said = call_messages(decoded(payload))
                return given.messages, said.messages
        span = span_of(self.reader.store, tenant, found.traces, call.step_id)
        if span is None:
            return (), ()
        given, said = span_messages(span, self._logs(tenant, found.traces, call.step_id))
        return given.messages, said.messages


def _of_step(step: RunStep) -> _Found:
    traces = {row.otel_trace_id for row in step.events} | {otel_trace_id(step.trace_id)}
    if step.span is not None:
        traces.add(step.span.trace_id)
    return _Found(step.kind, step.trace_id, step.start, step.events, sorted(traces - {""}))


def _may_ask(found: _Found, span: ContentSpan | None) -> bool:
    kind = found.kind or (span.call_kind if span is not None else "")
    return kind in _AGENTS


def _of_span(trace_id: str, span: ContentSpan) -> _Found:
    return _Found("", trace_id, span.began, (), [span.trace_id])


def _content(
    kind: str,
    events: Sequence[Mapping[str, Any]],
    span: ContentSpan | None,
    logs: Callable[[], Sequence[ContentLog]],
) -> Content:
    """Return the content from the events, with missing parts from the span."""
    if not events and span is not None:
        return content_of_span(span, logs)
    content = content_of_events(kind, events)
    if any(event.get("content_omitted") for event in events):
        content = content.model_copy(update={"omitted": True})
    if span is None:
        return content
    other = content_of_span(span, logs)
    if type(other) is not type(content):
        return content
    lacking = {
        name: getattr(other, name)
        for name in type(content).model_fields
        if not getattr(content, name) and getattr(other, name)
    }
    return content.model_copy(update=lacking)
