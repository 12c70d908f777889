"""One call of a model by somebody else's client: begun, tried again, answered, failed or left."""

import time
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, Final

from tracereel import _context, _guard, _recorder, _values, semconv
from tracereel._context import Execution
from tracereel._failures import cancels
from tracereel._recorder import Recorder
from tracereel.integrations import _plain_lines
from tracereel.integrations._dialects import Dialect, Result
from tracereel.integrations._scope import ClientScope, FailedAnswerError, bounded, spec_of
from tracereel.integrations._tool_memory import ToolMemory
from tracereel.metrics import tokens_remaining, tokens_remaining_raw
from tracereel.providers import plain_wire
from tracereel.providers.base import (
    UNKNOWN_MODEL,
    Failure,
    Normalized,
    StreamTimings,
    ToolCall,
    Usage,
)
from tracereel.providers.emission import message_fields
from tracereel.providers.normalizer import BatchResultNormalizer
from tracereel.providers.reading import as_data, mapping, text
from tracereel.providers.usage import usage_of
from tracereel.resilience._place import error_fields, nearest_agent
from tracereel.resilience._run import count_retry, retry_event

MAX_MESSAGES: Final = 200
"""Normalised messages of one answer that become events; the answer itself is recorded whole."""


class ModelCall:
    """What becomes of one request to a model. Nothing here raises into the client.

    Inside a function that is traced as a model call already there is no second one: what is learnt
    goes to the one around, and tokens are counted once.
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
        around = _context.current_execution()
        self._around = around if around is not None and around.kind == "llm" else None
        if self._around is None:
            spec = spec_of(model, provider, dialect.operation)
            self._scope = ClientScope(recorder, spec, body, dialect)
            self._attempt_tick = self._scope.start_tick
        else:
            self._attempt_tick = time.perf_counter_ns()

    @property
    def execution(self) -> Execution:
        """The execution that the call is, or that it is part of."""
        execution = self._around if self._scope is None else self._scope.execution
        assert execution is not None  # noqa: S101 - one of the two is always there
        return execution

    @property
    def around(self) -> Execution | None:
        """The execution that the call is made in."""
        return self._around if self._scope is None else self._scope.execution.parent

    @property
    def is_taped(self) -> bool:
        """Whether a tape records the run it is part of, or serves it; what no run is around is on none."""
        return self._recorder.tape is not None and self.around is not None

    @property
    def start_tick(self) -> int:
        """When the call began, by the performance counter."""
        return self._attempt_tick if self._scope is None else self._scope.start_tick

    def attach(self) -> None:
        """The client is at work."""
        if self._scope is not None:
            self._scope.attach()
            if self.dialect.brings_results(self._body):
                self._tell_results(self.dialect.results(self._body))

    def detach(self) -> None:
        """The client has handed something back."""
        if self._scope is not None:
            self._scope.detach()

    def streams(self) -> None:
        """The answer will come in parts."""
        if self._scope is not None:
            self._scope.was_streamed = True

    def sent(self, request: Any) -> None:
        """The request that the client has sent, of httpx; without its body nothing is missed."""
        if self._scope is not None:
            # Not by their properties, which raise where there is nothing.
            body = getattr(request, "_content", None)
            self._scope.sent = body if type(body) is bytes else None

    def headers(self, headers: Any) -> None:
        """The head of an answer has come."""
        kept = getattr(headers, "_list", None)
        try:
            # httpx: reading its headers by name would be dear, and `raw` makes them anew.
            left = tokens_remaining_raw(kept) if type(kept) is list else tokens_remaining(headers)
        except (IndexError, TypeError, AttributeError):
            left = tokens_remaining(headers)  # another version keeps them another way
        if left is None:
            return
        self._recorder.metrics.set_tokens(self.provider, left)
        if self._scope is not None:
            self._scope.extra["llm_tokens_remaining"] = left

    def retried(
        self, *, error: str, reason: str, strategy: str, delay: float, attempts: int | None
    ) -> None:
        """An attempt has failed and the client will try again after a delay, in seconds."""
        execution, now_ns = self.execution, time.time_ns()
        event = retry_event(
            agent=nearest_agent(execution) or execution.name,
            attempt=self._attempt,
            error=_values.text(error, 4096),
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
        """The delay is over: the next attempt begins."""
        self._attempt_tick = time.perf_counter_ns()

    def answered(self, answer: Any) -> None:
        """The whole answer is there, as data or as an object of the client."""
        data = as_data(answer) if not isinstance(answer, dict) else answer
        if not self.dialect.is_conversation:
            self._note(usage_of(data), text(mapping(data).get("model")), None, ())
            self._close(None)
            return
        normalizer = BatchResultNormalizer(
            provider=self.dialect.provider, model=self.model, keep_raw=False
        )
        self.told(normalizer.normalize_data(data), data)

    def answered_plainly(self, body: bytes | str) -> bool:
        """Tell an answer that is one text in one step, from the wire; false where there is more to it."""
        scope, kind = self._scope, self.dialect.plain
        if scope is None or kind is None or self.ended or self._attempt > 1:
            return False
        answer = plain_wire.read(kind, body)
        self.ended = answer is not None and _plain_lines.tell(scope, answer, self.model)
        return self.ended

    def told(
        self,
        answer: Normalized,
        data: Any,
        *,
        timings: StreamTimings | None = None,
        abandoned: bool = False,
        error: BaseException | None = None,
    ) -> None:
        """The answer is there, or what came of it: normalised, and in the provider's own shape."""
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
            self._memory.asked(calls)
        if (scope := self._scope) is not None:
            self._describe(scope, answer, data, timings)
        for event in answer.events[:MAX_MESSAGES]:
            self._add(message_fields(event))
        if error is None and failure is not None and answer.stop_reason == "error":
            error = FailedAnswerError(failure)
        self._close(error, abandoned=abandoned)

    def failed(self, error: BaseException) -> None:
        """The client has raised; it raises it further, unchanged."""
        if self.ended:
            return
        response = getattr(error, "response", None)
        if (headers := getattr(response, "headers", None)) is not None:
            self.headers(headers)
        self._close(error)

    def nothing(self) -> None:
        """It is over and nobody has read the answer."""
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
        if usage is not None:
            # A traced function may ask its client more than once.
            told = notes.get
            notes["llm_prompt_tokens"] = told("llm_prompt_tokens", 0) + usage.input_tokens
            notes["llm_completion_tokens"] = told("llm_completion_tokens", 0) + usage.output_tokens
            if (cached := usage.cached_tokens) is not None:
                notes["llm_cached_tokens"] = told("llm_cached_tokens", 0) + cached
            if (thought := usage.reasoning_tokens) is not None:
                notes["llm_reasoning_tokens"] = told("llm_reasoning_tokens", 0) + thought
            if self._scope is not None and usage.cache_creation_tokens is not None:
                self._scope.extra["llm_cache_creation_tokens"] = usage.cache_creation_tokens

    def _describe(
        self, scope: ClientScope, answer: Normalized, data: Any, timings: StreamTimings | None
    ) -> None:
        extra, notes = scope.extra, scope.execution.notes
        if answer.stop_reason is not None:
            extra["stop_reason"] = answer.stop_reason
        data = mapping(data)
        if (identity := text(data.get("id") or data.get("responseId"))) is not None:
            extra["response_id"] = identity
        # Some that speak OpenAI's language say what the answer has cost.
        cost = _values.real(mapping(data.get("usage")).get("cost"))
        if cost is not None and cost >= 0:
            notes["llm_cost_usd"] = cost
        if answer.problems:
            extra["problems"] = [each.code for each in answer.problems[:MAX_MESSAGES]]
        if scope.captures:
            said = [each for each in self.dialect.said(data) if each is not None]
            if said:
                notes["output_messages"] = bounded(said)
        if timings is not None:
            if timings.first_token_seconds is not None:
                first = max(0, round(timings.first_token_seconds * 1000))
                notes["time_to_first_token_ms"] = first
            extra["output_items"] = timings.token_chunks
            if timings.longest_gap_seconds is not None:
                extra["longest_gap_ms"] = round(timings.longest_gap_seconds * 1000)
            if timings.tokens_per_second is not None:
                extra["tokens_per_second"] = round(timings.tokens_per_second, 3)

    def _add(self, fields: dict[str, Any]) -> None:
        """An event of the answer, which is closed right after it."""
        self._address(fields)
        if self._scope is None:
            self.execution.emit(fields)
        else:
            self._scope.before.append(fields)

    def _emit(self, fields: dict[str, Any]) -> None:
        self._address(fields)
        self.execution.emit(fields)

    def _address(self, fields: dict[str, Any]) -> None:
        execution = self.execution
        agent = execution.agent
        if agent.kind == "agent":
            fields["agent_name"] = agent.name
        fields["request_id"] = execution.request_id
        if "llm_provider" in fields:
            fields["llm_provider"] = self.provider

    def _tell_results(self, results: Iterable[Result]) -> None:
        for event in self._memory.answered(results, self.provider, self.model):
            self._emit(message_fields(event))

    def _attempt_span(self, error: str | None) -> dict[str, Any]:
        """The span of the attempt that ends now, and how the event that describes it tells of it."""
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
        """The attempts before have their retry's event; this describes the last one."""
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
    """The same call, seen at the client that a framework makes it with: the framework tells of it.

    Only what the framework does not see, retries and what is left of the quota, is learnt here.
    """

    __slots__ = ("_outer",)

    def __init__(self, outer: ModelCall, dialect: Dialect) -> None:
        self._outer = outer
        self.dialect, self.model, self.provider = dialect, outer.model, outer.provider
        self.ended = True
        self._scope = None
        self._recorder = outer._recorder  # noqa: SLF001 - of the same class
        self._around = outer.execution
        self._attempt_tick = outer.start_tick
        framework_told(outer)  # the next request in this context is another one

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
        """Nothing was attached."""


_told: ContextVar[tuple[ModelCall, ...]] = ContextVar("tracereel_framework_calls", default=())


def framework_tells_of(call: ModelCall) -> None:
    """A framework is about to make this call with its provider's client, which may be wrapped too."""
    _told.set((*(each for each in _told.get() if not each.ended), call))


def framework_told(call: ModelCall) -> None:
    """The client has been asked: what is asked in this context from now on is something else."""
    _told.set(tuple(each for each in _told.get() if each is not call and not each.ended))


def begin(
    dialect: Dialect,
    body: Any,
    *,
    model: str | None = None,
    provider: str | None = None,
    memory: ToolMemory,
) -> ModelCall | None:
    """A call begins and is the current one; null where nothing is recorded."""
    recorder = _recorder.active()
    if recorder is None:
        return None
    for told in _told.get():
        if not told.ended:
            return InnerCall(told, dialect)
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
        _guard.report("client_call", error)
        return None
    return call
