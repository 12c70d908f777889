"""Names of spans, attributes, metrics and log lines.

The tables map event fields to attributes, so that all telemetry is derived from events.
"""

from typing import Final

SCOPE: Final = "tracereel"
"""Instrumentation scope of the SDK's spans."""
EVENT_VERSION: Final = "1.0.0"
SUMMARY_LIMIT: Final = 200
"""Copies of the constants in `tracereel.events`, which imports pydantic. A test compares them."""

EXECUTION_STARTED: Final = "agent.execution.started"
EXECUTION_COMPLETED: Final = "agent.execution.completed"
EXECUTION_FAILED: Final = "agent.execution.failed"
EXECUTION_CANCELLED: Final = "agent.execution.cancelled"
DECISION_RECORDED: Final = "agent.decision.recorded"
PIPELINE_STARTED: Final = "agent.pipeline.started"
PIPELINE_COMPLETED: Final = "agent.pipeline.completed"
RETRY_ATTEMPTED: Final = "agent.retry.attempted"
FALLBACK_TRIGGERED: Final = "agent.fallback.triggered"
LLM_CALLED: Final = "agent.llm.called"
TOOL_CALLED: Final = "agent.tool.called"
STEP_COMPLETED: Final = "agent.step.completed"
RETRIEVAL_COMPLETED: Final = "agent.retrieval.completed"
TAPE_RECORDED: Final = "agent.tape.recorded"

CALLS: Final = frozenset({LLM_CALLED, TOOL_CALLED, STEP_COMPLETED, RETRIEVAL_COMPLETED})
"""Events that end a call inside of an agent."""

CONTENT_FIELDS: Final = (
    *("input_messages", "output_messages", "tool_definitions", "arguments", "result"),
    *("input", "output", "content", "documents"),
)
"""Fields with whole inputs and outputs; large ones are at the end of an event's line."""
CONTENT_BYTES: Final = "content_bytes"
"""Field before large content: length of the JSON object of these fields."""
LARGE_CONTENT: Final = 4_096
"""Bytes of JSON above which content is large."""

SUCCESS: Final = "success"
PARTIAL_SUCCESS: Final = "partial_success"
REPLACED: Final = "replaced"
"""Not a status of an execution: an agent that failed and whose fallback delivered the result."""
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

OPERATION: Final = "gen_ai.operation.name"
INVOKE_AGENT: Final = "invoke_agent"
INVOKE_WORKFLOW: Final = "invoke_workflow"
EXECUTE_TOOL: Final = "execute_tool"
RETRIEVAL: Final = "retrieval"
STEP: Final = "step"
SPAN_TRACE_ID: Final = "trace_id"
SPAN_REQUEST_ID: Final = "tracereel.request_id"
SPAN_EXECUTION_ID: Final = "tracereel.execution_id"
SPAN_SESSION_ID: Final = "session.id"
SPAN_CONVERSATION_ID: Final = "gen_ai.conversation.id"
SPAN_USER_ID: Final = "user.id"

CODE_TIMEOUT: Final = "EXECUTION_TIMEOUT"
CODE_ITERATION_LIMIT: Final = "ITERATION_LIMIT_REACHED"
CODE_UNHANDLED: Final = "UNHANDLED"
"""Code of errors that no failure rule knows."""

SPAN_ATTRIBUTES: Final[dict[str, tuple[str, ...]]] = {
    "agent_name": ("gen_ai.agent.name", "agent.name"),
    "agent_version": ("gen_ai.agent.version", "agent.version"),
    "pipeline_type": ("gen_ai.workflow.name", "pipeline.type"),
    "operation": (OPERATION,),
    "request_id": (SPAN_REQUEST_ID,),
    "execution_id": (SPAN_EXECUTION_ID,),
    "tool_name": ("gen_ai.tool.name", "tool.name"),
    "tool_type": ("gen_ai.tool.type",),
    "tool_call_id": ("gen_ai.tool.call.id",),
    "step_name": ("step.name",),
    "step_type": ("step.type",),
    "retrieval_name": ("retrieval.name",),
    "collection": ("gen_ai.data_source.id", "retrieval.collection"),
    "top_k": ("retrieval.top_k",),
    "result_count": ("retrieval.result_count",),
    "is_empty": ("retrieval.is_empty",),
    "degraded": ("retrieval.degraded",),
    "llm_provider": ("gen_ai.provider.name", "llm.provider"),
    "llm_model": ("gen_ai.request.model", "llm.model"),
    "llm_model_requested": ("gen_ai.request.model",),
    "temperature": ("gen_ai.request.temperature", "llm.temperature"),
    "max_tokens": ("gen_ai.request.max_tokens", "llm.max_tokens"),
    "llm_tokens_used": ("llm.tokens_used",),
    "llm_prompt_tokens": ("gen_ai.usage.input_tokens",),
    "llm_completion_tokens": ("gen_ai.usage.output_tokens",),
    "llm_cached_tokens": ("gen_ai.usage.cache_read.input_tokens",),
    "llm_reasoning_tokens": ("gen_ai.usage.reasoning.output_tokens",),
    "llm_cost_usd": ("llm.cost_usd",),
    "confidence": ("agent.confidence",),
    "decision_type": ("agent.decision_type",),
    "stage": ("agent.stage",),
    "error_type": ("error.type",),
    "finish_reason": ("llm.finish_reason",),
    "time_to_first_token_ms": ("llm.time_to_first_token_ms",),
    "rounds": ("agent.rounds",),
    "error_code": ("agent.error_code",),
    "error_category": ("agent.error_category",),
    "status": ("pipeline.status",),
    "final_outcome": ("pipeline.outcome",),
    "final_confidence": ("pipeline.confidence",),
}
"""Event field → span attributes: OpenTelemetry's GenAI names, then the contract's."""

PIPELINE_FIELD: Final = "status"
"""Field whose attribute is on spans of pipelines only; events of calls have it too."""

ANSWERED_BY: Final = "gen_ai.response.model"
"""Model that responded, on model call spans; `gen_ai.request.model` is the requested one."""

KNOWN_AT_START: Final = (
    *("agent_name", "agent_version", "pipeline_type", "request_id", "execution_id"),
    *("operation", "tool_name", "step_name", "retrieval_name"),
)
"""Fields of closing events whose attributes are set when the span starts."""

SPAN_EVENTS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    DECISION_RECORDED: (
        "decision_recorded",
        {name: name for name in ("decision_id", "decision_type", "confidence")},
    ),
    RETRY_ATTEMPTED: (
        "retry_attempted",
        {
            "retry_attempt": "attempt",
            "original_error": "error",
            "retry_reason": "reason",
            "delay_seconds": "delay_seconds",
        },
    ),
    FALLBACK_TRIGGERED: (
        "fallback_triggered",
        {
            "primary_agent": "primary_agent",
            "fallback_agent": "fallback_agent",
            "trigger_reason": "reason",
            "primary_error": "error",
            "fallback_successful": "successful",
        },
    ),
}
"""Event type → name of the span event, and its attributes by event field."""

_LOG_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    EXECUTION_STARTED: ("agent_name", "trace_id", "input_summary"),
    EXECUTION_COMPLETED: ("agent_name", "trace_id", "execution_time_ms", "confidence"),
    EXECUTION_FAILED: ("agent_name", "trace_id", "error_type", "was_retried", "retry_count"),
    EXECUTION_CANCELLED: ("agent_name", "trace_id", "execution_time_before_cancel_ms"),
    DECISION_RECORDED: ("agent_name", "trace_id", "decision_id", "decision_type", "confidence"),
    PIPELINE_STARTED: ("pipeline_type", "trace_id", "request_id"),
    PIPELINE_COMPLETED: (
        *("pipeline_type", "trace_id", "status", "total_execution_time_ms", "agents_failed"),
    ),
    RETRY_ATTEMPTED: ("agent_name", "trace_id", "retry_attempt", "retry_reason", "delay_seconds"),
    FALLBACK_TRIGGERED: (
        *("primary_agent", "fallback_agent", "trace_id", "trigger_reason", "fallback_successful"),
    ),
    LLM_CALLED: (
        *("agent_name", "trace_id", "llm_model", "status", "duration_ms", "llm_tokens_used"),
    ),
    TOOL_CALLED: ("agent_name", "trace_id", "tool_name", "status", "duration_ms"),
    STEP_COMPLETED: ("agent_name", "trace_id", "step_name", "status", "duration_ms"),
    RETRIEVAL_COMPLETED: (
        *("agent_name", "trace_id", "retrieval_name", "status", "result_count", "degraded"),
    ),
}
LOG_LINES: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    kind: (kind.replace(".", "_"), "error" if kind == EXECUTION_FAILED else "info", fields)
    for kind, fields in _LOG_FIELDS.items()
}
"""Event type → name, level and fields of the log line."""

AGENT_EXECUTIONS: Final = "agent_executions_total"
AGENT_ERRORS: Final = "agent_errors_total"
AGENT_RETRIES: Final = "agent_retries_total"
AGENT_FALLBACKS: Final = "agent_fallbacks_total"
AGENT_DURATION: Final = "agent_execution_duration_seconds"
LLM_DURATION: Final = "llm_request_duration_seconds"
AGENT_CONFIDENCE: Final = "agent_confidence"
LLM_TOKENS_REMAINING: Final = "llm_tokens_remaining"
SDK_EVENTS: Final = "tracereel_sdk_events_total"
SDK_DROPPED: Final = "tracereel_sdk_events_dropped_total"
SDK_SPANS: Final = "tracereel_sdk_spans_total"
SDK_SPANS_DROPPED: Final = "tracereel_sdk_spans_dropped_total"
SDK_RUNS: Final = "tracereel_sdk_runs_total"
SDK_DELIVERY: Final = "tracereel_sdk_delivery_seconds"
SDK_SPOOLED_EVENTS: Final = "tracereel_sdk_spooled_events"
SDK_SPOOLED_BYTES: Final = "tracereel_sdk_spooled_bytes"
SDK_REDACTIONS: Final = "tracereel_sdk_redactions_total"
SDK_INTERNAL_ERRORS: Final = "tracereel_sdk_internal_errors_total"

DROP_REASONS: Final = (
    *("spool_full", "spool_error", "sampled_out", "no_execution", "duplicate_tool_call"),
    "internal_error",
)
"""Values of the `reason` label of the drop counter."""

AGENT_DURATION_BUCKETS: Final = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
LLM_DURATION_BUCKETS: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0)
