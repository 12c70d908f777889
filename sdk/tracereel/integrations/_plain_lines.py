"""A plain call of a model from its answer to the spool in one step: one text came back, nothing to hide.

Nearly all calls are that. What they leave is what `ModelCall.told` would leave of them, to the letter;
but no field is looked at that is known beforehand, and the two lines are written from records, not from
dictionaries that are filled, copied and searched. Between two requests, where the caches are cold, this
is what a call costs: a third of the code, a third of the time.
"""

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import asdict

from tracereel import _guard, _spans, semconv
from tracereel._clock import rfc3339
from tracereel._exits import too_late
from tracereel._privacy import Privacy
from tracereel._scopes.calls import LlmSpec
from tracereel._written import Written
from tracereel.integrations._scope import ClientScope
from tracereel.providers.emission import MESSAGE_NORMALIZED
from tracereel.providers.plain_wire import PlainWire

LONGEST: Final = 2_700
"""Characters of an answer: however they are written as JSON, they are within what an event may have."""
_OptionalText = str | UnsetType
_OptionalCount = int | UnsetType


class _Line(msgspec.Struct, gc=False):
    """What every event begins with, in the order of `tracereel._emission`."""

    event_id: str
    event_type: str
    event_version: str
    timestamp: str
    trace_id: str
    otel_trace_id: str
    span_id: str
    parent_span_id: str | None
    service: str | None
    execution_id: str
    event_index: int
    hlc: str
    session_id: _OptionalText
    user_id: _OptionalText


class MessageLine(_Line, gc=False):
    """`agent.message.normalized` of a text, in the order of `tracereel.providers.emission`."""

    message_type: str
    role: str
    original_index: int
    is_streaming: bool
    is_final: bool
    persistence_strategy: str
    llm_provider: str
    llm_model: str
    content: str
    block_index: int
    message_id: _OptionalText
    stop_reason: _OptionalText
    stop_reason_raw: _OptionalText
    normalized_id: str
    message_index: int
    candidate_index: int
    llm_prompt_tokens: _OptionalCount
    llm_completion_tokens: _OptionalCount
    llm_tokens_used: _OptionalCount
    llm_cached_tokens: _OptionalCount
    llm_cache_creation_tokens: _OptionalCount
    llm_reasoning_tokens: _OptionalCount
    agent_name: _OptionalText
    request_id: str


class CallLine(_Line, gc=False):
    """`agent.llm.called` of such a call, in the order of `tracereel._scopes.calls`."""

    agent_name: str | None
    request_id: str
    operation: str
    llm_provider: str
    llm_model: str
    llm_model_requested: str
    temperature: float | None
    max_tokens: int | None
    status: str
    duration_ms: int
    time_to_first_token_ms: int | None
    was_streamed: bool
    llm_tokens_used: int | None
    llm_prompt_tokens: int | None
    llm_completion_tokens: int | None
    llm_cached_tokens: int | None
    llm_reasoning_tokens: int | None
    llm_cost_usd: float | None
    finish_reason: str | None
    input_messages: Raw | None
    output_messages: Raw
    tool_call_ids: list[str] | None
    llm_tokens_remaining: _OptionalCount
    llm_cache_creation_tokens: _OptionalCount
    stop_reason: _OptionalText
    response_id: _OptionalText
    span_name: str
    span_start_unix_nano: int
    span_end_unix_nano: int


_encode: Final = msgspec.json.Encoder().encode


def tell(scope: ClientScope, answer: PlainWire, requested: str) -> bool:
    """Record the end of a call; false where that takes a closer look, and then nothing has happened."""
    recorder, execution = scope.recorder, scope.execution
    if (
        not recorder.writes_at_once
        or recorder.closed
        or recorder.tape is not None
        or execution.notes
        or execution.retry_count
        or execution.attempt is not None
        or len(answer.content) > LONGEST
    ):
        return False
    asked = scope.dialect.asked_plainly(scope.sent)
    if asked is None:
        written = scope.asked()
        if type(written) is not Written or written.texts is None:
            return False
        raw, texts, keys = written.raw, list(written.texts), written.keys
    else:
        raw, texts, keys = asked
    texts += (answer.content, answer.message_id or "", answer.inner_id)
    if execution.request_id is not execution.trace.request_id:
        texts.append(execution.request_id)
    agent = execution.agent
    agent_name = agent.name if agent.kind == "agent" else None
    model, privacy = answer.model or requested, recorder.privacy
    labels = (scope.spec, model, answer.stop_reason, answer.stop_reason_raw, agent_name)
    if not privacy.passes(labels, _labels, texts, keys):
        return False
    _told(scope, answer, raw, model, agent_name)
    return True


def _labels(privacy: Privacy, spec: LlmSpec, *named: str | None) -> tuple[str, ...]:
    """The values of few kinds that both events have."""
    fixed = ("assistant_message", "assistant", "sync", semconv.SUCCESS)
    asked = (spec.view(privacy).span_name, spec.provider, spec.operation, spec.model)
    return tuple(each for each in (*fixed, *asked, *named) if each is not None)


def _told(
    scope: ClientScope, answer: PlainWire, asked: Raw, model: str, agent_name: str | None
) -> None:
    recorder, execution, spec = scope.recorder, scope.execution, scope.spec
    left = 2
    try:
        scope.detach()
        if too_late():
            return
        start_ns, end_ns, milliseconds, seconds = scope.span_times()
        state, trace = execution.state, execution.trace
        usage = answer.usage
        prompt: int | None = None
        completion: int | None = None
        total: int | None = None
        cached: int | None = None
        created: int | None = None
        thought: int | None = None
        if usage is not None:
            prompt, completion = usage.input_tokens, usage.output_tokens
            total = prompt + completion
            cached, thought = usage.cached_tokens, usage.reasoning_tokens
            created = usage.cache_creation_tokens
        state.calls_models = True
        state.add_usage(prompt, completion, total, None)
        stop, word = answer.stop_reason or UNSET, answer.stop_reason_raw
        provider = spec.provider or ""
        mark, tick = recorder.mark, recorder.clock.tick
        session_id: _OptionalText = UNSET
        user_id: _OptionalText = UNSET
        if execution.session_id is not None:
            session_id = recorder.owner("session_id", execution.session_id)
        if execution.user_id is not None:
            user_id = recorder.owner("user_id", execution.user_id)
        temperature, max_tokens = scope.settings()
        # What both events have, after their types.
        both = (
            semconv.EVENT_VERSION,
            rfc3339(end_ns),
            trace.trace_id,
            execution.otel_trace_id,
            execution.span_id,
            execution.parent_span_id,
            recorder.config.service,
            state.execution_id,
        )
        hlc = tick()
        message = MessageLine(
            f"evt_{hlc}{mark}",
            MESSAGE_NORMALIZED,
            *both,
            next(state.indexes),
            hlc,
            session_id,
            user_id,
            "assistant_message",
            "assistant",
            0,
            False,
            True,
            "sync",
            provider,
            model,
            answer.content,
            0,
            answer.message_id or UNSET,
            stop,
            word or UNSET,
            answer.event_id,
            0,
            0,
            UNSET if prompt is None else prompt,
            UNSET if completion is None else completion,
            UNSET if total is None else total,
            UNSET if cached is None else cached,
            UNSET if created is None else created,
            UNSET if thought is None else thought,
            agent_name or UNSET,
            execution.request_id,
        )
        hlc = tick()
        call = CallLine(
            f"evt_{hlc}{mark}",
            semconv.LLM_CALLED,
            *both,
            next(state.indexes),
            hlc,
            session_id,
            user_id,
            agent_name,
            execution.request_id,
            spec.operation,
            provider,
            model,
            spec.model,
            temperature,
            max_tokens,
            semconv.SUCCESS,
            milliseconds,
            None,
            False,
            total,
            prompt,
            completion,
            cached,
            thought,
            None,
            word,
            asked,
            Raw(answer.said),
            None,
            scope.extra.get("llm_tokens_remaining", UNSET),
            UNSET if created is None else created,
            stop,
            answer.message_id or UNSET,
            spec.view(recorder.privacy).span_name,
            start_ns,
            end_ns,
        )
        bodies = [_encode(message), _encode(call)]
        recorder.write_all(bodies, trace, closes_run=scope.closes_run())
        left = 0
        recorder.metrics.count_call(
            provider, model, seconds, prompt or 0, completion or 0, trace.trace_id
        )
        if recorder.logs.listens():
            recorder.logs.write(as_event(message))
            recorder.logs.write(as_event(call))
        if execution.span.is_recording():
            _spans.finish(
                execution.span,
                as_event(call),
                None,
                trace_id=trace.trace_id,
                end_ns=end_ns,
                failed=False,
            )
        scope.leave_word(semconv.SUCCESS, None)
    except Exception as error:  # noqa: BLE001 - a guard, without the price of one
        _guard.report("complete", error)
        if left:
            recorder.drop("internal_error", left)


def as_event(line: _Line) -> dict[str, Any]:
    """The event that a line is, for those who read events by their fields."""
    return {name: value for name, value in asdict(line).items() if value is not UNSET}
