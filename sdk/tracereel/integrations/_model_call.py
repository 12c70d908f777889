"""One model call by a client library: start, retries, response, failure or cancellation."""

import time
from contextvars import ContextVar
from typing import Any, Final

from tracereel import semconv
from tracereel._core import context
from tracereel._core import recorder as _recorder
from tracereel._core.context import Execution
from tracereel._core.error_details import cancels
from tracereel._core.recorder import Recorder
from tracereel._redact import values
from tracereel._runtime import guard
from tracereel.integrations._decisions import decision_events
from tracereel.integrations._dialects import Dialect
from tracereel.integrations._scope import ClientScope, FailedAnswerError, note_request, spec_of
from tracereel.integrations._tool_memory import ToolMemory
from tracereel.metrics import tokens_remaining
from tracereel.providers.base import (
    UNKNOWN_MODEL,
    Failure,
    Normalized,
    NormalizedEvent,
    StreamTimings,
    ToolCall,
    Usage,
)
from tracereel.providers.emission import message_fields
from tracereel.providers.normalizer import BatchResultNormalizer
from tracereel.providers.reading import as_data, items, mapping, text
from tracereel.providers.transient import without_thinking
from tracereel.providers.usage import usage_of
from tracereel.resilience.attempt_loop import count_retry, retry_event
from tracereel.resilience.policy import ERROR, TIMEOUT, is_timeout
from tracereel.resilience.retry_scope import error_fields, nearest_agent

RATE_LIMITED: Final = "rate_limited"
MAX_MESSAGES: Final = 200
"""Normalized messages of one response that become events; the response is recorded in full."""


class ModelCall:
    """One request to a model; never raises into the client.

    Inside a function that is already traced as a model call there is no second call. Its data is
    added to the enclosing call, so tokens are counted once.
    """

    __slots__ = (
        "_around",
        "_attempt",
        "_attempt_tick",
        "_body",
        "_memory",
        "_recorder",
        "_scope",
        "dialect",
        "ended",
        "model",
        "provider",
    )

    def __init__(
        self,
        recorder: Recorder,
        dialect: Dialect,
        body: dict[str, Any],
        *,
        model: str,
        provider: str,
        memory: ToolMemory,
    ) -> None:
        self.dialect = dialect
        self.model = model
        self.provider = provider
        self.ended = False
        self._recorder = recorder
        self._body = body
        self._memory = memory
        self._attempt = 1
        self._scope: ClientScope | None = None
        around = context.current_execution()
        self._around = around if around is not None and around.kind == "llm" else None
        if self._around is None:
            spec = spec_of(model, provider, dialect.operation)
            self._scope = ClientScope(recorder, spec, body, dialect)
            self._attempt_tick = self._scope.start_tick
        else:
            self._attempt_tick = time.perf_counter_ns()
            if recorder.config.capture_content:
                note_request(self._around, dialect, body, recorder)

    @property
    def execution(self) -> Execution:
        """Execution of the call, or the enclosing one that it is part of."""
        execution = self._around if self._scope is None else self._scope.execution
        assert execution is not None  # noqa: S101 - one of the two is always set
        return execution

    @property
    def around(self) -> Execution | None:
        """Execution in which the call is made."""
        return self._around if self._scope is None else self._scope.execution.parent

    @property
    def is_taped(self) -> bool:
        """Whether a tape records or serves the enclosing run."""
        return self._recorder.tape is not None and self.around is not None

    @property
    def start_tick(self) -> int:
        """Start of the call, by the performance counter."""
        return self._attempt_tick if self._scope is None else self._scope.start_tick

    def attach(self) -> None:
        """Make the call current and record the tool results in its request."""
        if self._scope is not None:
            self._scope.attach()
            if self.dialect.brings_results(self._body):
                results = self.dialect.results(self._body)
                for event in self._memory.answered(results, self.provider, self.model):
                    self._add(self._fields(event), at_once=True)

    def detach(self) -> None:
        """Restore the previous context."""
        if self._scope is not None:
            self._scope.detach()

    def add_request(self, body: dict[str, Any]) -> None:
        """Add the fields that only the client knows: tools and options."""
        for name, value in body.items():
            if self._body.get(name) is None:
                self._body[name] = value

    def streams(self) -> None:
        """Mark the response as streamed."""
        if self._scope is not None:
            self._scope.was_streamed = True

    def headers(self, headers: Any) -> None:
        """Read rate limits from response headers."""
        left = tokens_remaining(headers)
        if left is None:
            return
        self._recorder.metrics.set_tokens(self.provider, left)
        if self._scope is not None:
            self._scope.extra["llm_tokens_remaining"] = left

    def retried(
        self, *, error: str, reason: str, strategy: str, delay: float, attempts: int | None
    ) -> None:
        """Record a failed attempt that the client will retry after `delay` seconds."""
        execution, now_ns = self.execution, time.time_ns()
        event = retry_event(
            agent=nearest_agent(execution) or execution.name,
            attempt=self._attempt,
            error=values.text(error, 4096),
            reason=reason,
            strategy=strategy,
            delay=max(delay, 0.0),
            now_ns=now_ns,
        )
        event["llm_provider"] = self.provider
        if attempts is not None:
            event["max_attempts"] = attempts
        event.update(self._attempt_span(error))
        count_retry(execution)
        execution.emit(event)
        self._attempt += 1
        execution.attempt = self._attempt
        self.resumed()

    def resumed(self) -> None:
        """Start the next attempt after the delay."""
        self._attempt_tick = time.perf_counter_ns()

    def answered(self, answer: Any, *, shown: dict[str, Any] | None = None) -> None:
        """Complete the call with a whole response (data or a client object).

        `shown` is the response in the dialect's form; default: the response itself.
        """
        data = as_data(answer) if not isinstance(answer, dict) else answer
        if not self.dialect.is_conversation:
            answer = mapping(data)
            choices = [mapping(each) for each in items(answer.get("choices"))]
            finish = next(
                (word for each in choices if (word := text(each.get("finish_reason")))), None
            )
            self._note(usage_of(data), text(answer.get("model")), finish, ())
            if self.dialect.has_decisions:
                self._decided(data)
            if self._scope is not None and self._scope.captures:
                self._record_messages(answer)
            self._close(None)
            return
        normalizer = BatchResultNormalizer(
            provider=self.dialect.provider, model=self.model, keep_raw=False
        )
        self.complete_with(normalizer.normalize_data(data), shown or data)

    def _decided(self, data: Any) -> None:
        """Add one decision record per question that the response answers."""
        captures = self._recorder.config.capture_content
        elapsed = max(0, time.perf_counter_ns() - self.start_tick) // 1_000_000
        for event in decision_events(self._body, data, captures=captures, duration_ms=elapsed):
            self._add(event)

    def _record_messages(self, data: dict[str, Any]) -> None:
        """Record the messages of a response."""
        messages = [each for each in self.dialect.output_messages(data) if each is not None]
        if not self._recorder.config.store_thinking:
            messages = without_thinking(messages)
        if messages:
            self.execution.notes["output_messages"] = self._recorder.content.messages(messages)

    def complete_with(
        self,
        answer: Normalized,
        data: Any,
        *,
        timings: StreamTimings | None = None,
        abandoned: bool = False,
        error: BaseException | None = None,
    ) -> None:
        """Complete the call with a normalized response and the provider's data."""
        if self.ended:
            return
        calls: list[ToolCall] = []
        failure: Failure | None = None
        for event in answer.events:
            if event.tool_call is not None:
                calls.append(event.tool_call)
            if failure is None:
                failure = event.failure
        ids = tuple([call.id for call in calls if not call.runs_at_provider]) if calls else ()
        model = None if answer.model == UNKNOWN_MODEL else answer.model
        self._note(answer.usage, model, answer.stop_reason_raw, ids)
        if calls:
            self._memory.remember(calls)
        if (scope := self._scope) is not None:
            self._describe(scope, answer, data, timings)
        for event in answer.events[:MAX_MESSAGES]:
            self._add(self._fields(event))
        if error is None and failure is not None and answer.stop_reason == "error":
            error = FailedAnswerError(failure)
        self._close(error, abandoned=abandoned)

    def failed(self, error: BaseException) -> None:
        """Fail the call with an exception of the client."""
        if self.ended:
            return
        response = getattr(error, "response", None)
        if (headers := getattr(response, "headers", None)) is not None:
            self.headers(headers)
        self._close(error)

    def nothing(self) -> None:
        """Complete the call without a response, because it was not read."""
        self._close(None)

    def _close(self, error: BaseException | None, *, abandoned: bool = False) -> None:
        if self.ended:
            return
        self.ended = True
        if self._attempt > 1:
            self._last_attempt(error)
        scope = self._scope
        if scope is None:
            return
        if error is not None:
            scope.fail(error)
        elif abandoned:
            scope.cancel()
        else:
            scope.complete(None)
        for left in scope.before:  # the closing event could not be made
            scope.execution.emit(left)

    def _note(
        self, usage: Usage | None, model: str | None, finish: str | None, ids: tuple[str, ...]
    ) -> None:
        notes = self.execution.notes
        if model is not None:
            notes["llm_model"] = model
        if finish is not None:
            notes["finish_reason"] = finish
        if ids:
            notes["tool_call_ids"] = [*notes.get("tool_call_ids", ()), *ids]
        if usage is None:
            return
        counts = {
            "llm_prompt_tokens": usage.input_tokens,
            "llm_completion_tokens": usage.output_tokens,
            "llm_cached_tokens": usage.cached_tokens,
            "llm_cache_creation_tokens": usage.cache_creation_tokens,
            "llm_reasoning_tokens": usage.reasoning_tokens,
        }
        for name, count in counts.items():
            if count is not None:  # a traced function may call its client more than once
                notes[name] = notes.get(name, 0) + count

    def _describe(
        self, scope: ClientScope, answer: Normalized, data: Any, timings: StreamTimings | None
    ) -> None:
        extra, notes = scope.extra, scope.execution.notes
        if answer.stop_reason is not None:
            extra["stop_reason"] = answer.stop_reason
        data = mapping(data)
        if (identity := text(data.get("id") or data.get("responseId"))) is not None:
            extra["response_id"] = identity
        # Some OpenAI-compatible servers report the cost.
        cost = values.real(mapping(data.get("usage")).get("cost"))
        if cost is not None and cost >= 0:
            notes["llm_cost_usd"] = cost
        if answer.problems:
            extra["problems"] = [each.code for each in answer.problems[:MAX_MESSAGES]]
        if scope.captures:
            self._record_messages(data)
        if timings is not None:
            if timings.first_token_seconds is not None:
                first = max(0, round(timings.first_token_seconds * 1000))
                notes["time_to_first_token_ms"] = first
            extra["output_items"] = timings.token_chunks
            if timings.longest_gap_seconds is not None:
                extra["longest_gap_ms"] = round(timings.longest_gap_seconds * 1000)
            if timings.tokens_per_second is not None:
                extra["tokens_per_second"] = round(timings.tokens_per_second, 3)

    def _fields(self, event: NormalizedEvent) -> dict[str, Any]:
        fields = message_fields(event, store_thinking=self._recorder.config.store_thinking)
        if self._recorder.config.capture_content:
            for name in ("content", "arguments"):
                if fields.get(name) is not None:
                    fields[name] = self._recorder.content.value(fields[name])
        return fields

    def _add(self, fields: dict[str, Any], *, at_once: bool = False) -> None:
        """Add an event; those of the response are written with the closing event."""
        execution = self.execution
        agent = execution.agent
        if agent.kind == "agent":
            fields["agent_name"] = agent.name
        fields["request_id"] = execution.request_id
        if "llm_provider" in fields:
            fields["llm_provider"] = self.provider
        if self._scope is None or at_once:
            execution.emit(fields)
        else:
            self._scope.before.append(fields)

    def _attempt_span(self, error: str | None) -> dict[str, Any]:
        """End the span of the current attempt and return the event fields that describe it."""
        scope = self._scope
        if scope is None:
            return {}
        began = scope.start_ns + self._attempt_tick - scope.start_tick
        end_ns = scope.start_ns + time.perf_counter_ns() - scope.start_tick
        name = (
            f"attempt {self._attempt} of {scope.spec.view(self._recorder.spans.privacy).span_name}"
        )
        attributes = {"attempt": self._attempt}
        started = self._recorder.spans.start(name, attributes, began, scope.span_context)
        if error is not None and started.span.is_recording():
            from opentelemetry.trace import Status, StatusCode

            started.span.set_status(Status(StatusCode.ERROR, error))
        started.span.end(end_time=end_ns)
        return {
            "span_id": started.span_id,
            "parent_span_id": started.parent_span_id,
            "span_name": name,
            "span_start_unix_nano": began,
            "span_end_unix_nano": end_ns,
        }

    def _last_attempt(self, error: BaseException | None) -> None:
        """Add an event for the last attempt; earlier attempts have retry events."""
        scope = self._scope
        if scope is None:
            return
        failed = error is not None and not cancels(error)
        span = self._attempt_span(type(error).__name__ if failed else None)
        elapsed = span["span_end_unix_nano"] - span["span_start_unix_nano"]
        event = {
            "event_type": semconv.STEP_COMPLETED,
            "step_name": span["span_name"],
            "step_type": "attempt",
            "status": semconv.SUCCESS,
            "duration_ms": max(0, elapsed) // 1_000_000,
            "attempt": self._attempt,
            **span,
        }
        if error is not None:
            event.update(error_fields(error) if failed else {"status": semconv.CANCELLED})
        self._add(event)


class InnerCall(ModelCall):
    """A framework's model call, observed at its client.

    The framework reports the call. The client adds only data that the framework lacks: retries and
    remaining rate limits.
    """

    __slots__ = ("_outer",)

    def __init__(self, outer: ModelCall, dialect: Dialect) -> None:
        self._outer = outer
        self.dialect, self.model, self.provider = dialect, outer.model, outer.provider
        self.ended = True
        self._scope = None
        self._recorder = outer._recorder  # noqa: SLF001 - the same class
        self._around = outer.execution
        self._attempt_tick = outer.start_tick
        unregister_framework_call(outer)  # the next request in this context is another call

    @property
    def around(self) -> Execution | None:
        return self._outer.around

    def headers(self, headers: Any) -> None:
        self._outer.headers(headers)

    def retried(
        self, *, error: str, reason: str, strategy: str, delay: float, attempts: int | None
    ) -> None:
        self._outer.retried(
            error=error, reason=reason, strategy=strategy, delay=delay, attempts=attempts
        )

    def resumed(self) -> None:
        self._outer.resumed()

    def detach(self) -> None:
        """Do nothing, because nothing was attached."""


_framework_calls: ContextVar[tuple[ModelCall, ...]] = ContextVar(
    "tracereel_framework_calls", default=()
)


def register_framework_call(call: ModelCall) -> None:
    """Register a call that a framework will make through a perhaps wrapped client."""
    _framework_calls.set((*(each for each in _framework_calls.get() if not each.ended), call))


def unregister_framework_call(call: ModelCall) -> None:
    """Unregister a call; later requests in this context are other calls."""
    _framework_calls.set(
        tuple(each for each in _framework_calls.get() if each is not call and not each.ended)
    )


def begin(
    dialect: Dialect,
    body: Any,
    *,
    model: str | None = None,
    provider: str | None = None,
    memory: ToolMemory,
) -> ModelCall | None:
    """Begin a call and make it current; return `None` if nothing is recorded."""
    recorder = _recorder.active()
    if recorder is None:
        return None
    for outer in _framework_calls.get():
        if not outer.ended:
            outer.add_request(body if isinstance(body, dict) else {})
            return InnerCall(outer, dialect)
    try:
        asked = body if isinstance(body, dict) else {}
        call = ModelCall(
            recorder,
            dialect,
            asked,
            model=model or text(asked.get("model")) or UNKNOWN_MODEL,
            provider=provider or dialect.provider,
            memory=memory,
        )
        call.attach()
    except Exception as error:  # noqa: BLE001
        guard.report("client_call", error)
        return None
    return call


def retry_reason(error: BaseException | None, status: int | None) -> str:
    """Return why an attempt is retried, by its HTTP status or error."""
    if status == 429:
        return RATE_LIMITED
    if status in (408, 504) or (error is not None and is_timeout(error)):
        return TIMEOUT
    return ERROR
