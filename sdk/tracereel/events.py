"""Event contract: pydantic models of all event types, shared by the SDK and the collector.

The eight `agent.*` types of contract 1.0.0 come first, field for field; tracereel's own types follow.
A field that the sender cannot know is null; the schema says when. Unknown extra fields are kept.
`docs/events.schema.json` is generated from these models, and the collector's decoder from that schema.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from tracereel.event_envelope import EVENT_VERSION as EVENT_VERSION
from tracereel.event_envelope import TRACE_ID_PATTERN as TRACE_ID_PATTERN
from tracereel.event_envelope import Count, Name, Ratio, Timestamp, TraceId
from tracereel.event_envelope import Envelope as Envelope

CUSTOM_PREFIX: Final = "custom."
SUMMARY_LIMIT: Final = 200
"""Maximum length of input and output summaries that the SDK writes, in characters."""

RESERVED_FIELDS: Final = frozenset({"tenant", "sequence_number", "ingested_at"})
"""Fields that only the collector may set; values from senders are removed."""


class AgentExecutionStarted(Envelope):
    """An agent begins an execution."""

    event_type: Literal["agent.execution.started"] = "agent.execution.started"
    agent_name: Name
    agent_version: str | None = None
    request_id: str
    parent_trace_id: TraceId | None = None
    input_type: str
    input_summary: str
    input_size_bytes: Count
    input: Any = None
    """Arguments by name."""
    llm_provider: str | None = None
    llm_model: str | None = None
    temperature: float | None = None
    max_tokens: Count | None = None
    enable_thinking: bool | None = None
    thinking_budget: Count | None = None
    timeout_seconds: float | None = None
    """Time limit of the execution."""
    repeats_execution_id: str | None = None


class AgentExecutionCompleted(Envelope):
    """An agent ended its execution with a result."""

    event_type: Literal["agent.execution.completed"] = "agent.execution.completed"
    agent_name: Name
    agent_version: str | None = None
    request_id: str
    execution_time_ms: Count
    execution_time_seconds: Annotated[float, Field(ge=0)]
    output_type: str
    output_summary: str
    output_size_bytes: Count
    output: Any = None
    """Result; of a generator, the items it yielded."""
    confidence: Ratio | None = None
    decision_type: str | None = None
    reasoning: str | None = None
    llm_tokens_used: Count | None = None
    llm_prompt_tokens: Count | None = None
    llm_completion_tokens: Count | None = None
    llm_cost_usd: float | None = None
    was_retried: bool = False
    retry_count: Count = 0
    fallback_used: bool = False
    stage: str | None = None
    output_items: Count | None = None
    """Number of items that a generator yielded."""
    rounds: Count | None = None
    """Rounds of an agent loop; `round_limit` is their maximum."""
    round_limit: Count | None = None
    end_code: str | None = None
    """`ITERATION_LIMIT_REACHED` if the loop hit its round limit, `EXECUTION_TIMEOUT` if it was late."""
    timeout_seconds: float | None = None
    duplicate_tool_calls: Count | None = None
    """Number of repeated tool calls that were not recorded."""
    attempts_made: Count | None = None
    """Attempts inside this execution: the first one and its retries."""
    repeats_execution_id: str | None = None
    """Execution that this one retries; `repeats_status` is its status."""
    repeats_status: str | None = None
    wasted_cost_usd: float | None = None
    """Wasted part of the cost; all of it if the execution did not succeed."""


class AgentExecutionFailed(Envelope):
    """An agent ended its execution with an error."""

    event_type: Literal["agent.execution.failed"] = "agent.execution.failed"
    agent_name: Name
    request_id: str
    error_type: str
    error_message: str
    error_code: str | None = None
    error_category: str | None = None
    """`transient`, `permanent` or `validation`."""
    stage: str | None = None
    input_at_error: dict[str, Any] | None = None
    partial_output: dict[str, Any] | None = None
    stack_trace: str | None = None
    was_retried: bool
    retry_count: Count
    max_retries_reached: bool
    fallback_attempted: bool
    fallback_successful: bool | None = None
    execution_time_before_failure_ms: Count
    propagated: bool | None = None
    """Whether the error came from a nested execution; `origin_execution_id` names it."""
    origin_execution_id: str | None = None
    timeout_seconds: float | None = None
    rounds: Count | None = None
    round_limit: Count | None = None
    duplicate_tool_calls: Count | None = None
    attempts_made: Count | None = None
    repeats_execution_id: str | None = None
    repeats_status: str | None = None
    wasted_cost_usd: float | None = None


class AgentDecisionRecorded(Envelope):
    """An agent wrote down a decision and why it took it."""

    event_type: Literal["agent.decision.recorded"] = "agent.decision.recorded"
    agent_name: Name | None
    """Agent that decided; null for a pipeline's decision outside of its agents."""
    decision_id: Name
    decision_type: str
    decision_category: str | None = None
    reasoning: str | None = None
    confidence: Ratio | None = None
    input_data: dict[str, Any] | None = None
    output_data: dict[str, Any] | None = None
    decision_duration_ms: Count | None = None
    was_cached: bool = False
    cache_hit_key: str | None = None
    candidates: list[Any] | None = None
    """Options to choose from; an addition to the contract's fields."""
    candidate_scores: list[float | None] | None = None
    """Scores in the order of the candidates."""
    chosen: Any = None
    threshold: float | None = None
    """Score or confidence that was required."""


class AgentRetryAttempted(Envelope):
    """An attempt failed and another one is due."""

    event_type: Literal["agent.retry.attempted"] = "agent.retry.attempted"
    agent_name: Name
    retry_attempt: Annotated[int, Field(ge=1, le=2**31 - 1)]
    original_error: str
    retry_reason: str
    retry_strategy: str
    delay_seconds: Annotated[float, Field(ge=0)]
    next_retry_at: Timestamp
    retry_successful: bool | None = None
    wasted_cost_usd: float | None = None
    """Cost of the attempt and its agents; already included in the agents' costs."""


class AgentFallbackTriggered(Envelope):
    """A backup agent took over from the primary one."""

    event_type: Literal["agent.fallback.triggered"] = "agent.fallback.triggered"
    primary_agent: Name
    fallback_agent: Name
    trigger_reason: str
    primary_error: str
    fallback_successful: bool
    fallback_output_summary: str | None = None
    fallback_confidence: Ratio | None = None
    quality_delta: float | None = None
    wasted_cost_usd: float | None = None
    """Cost of abandoned routes and the agents in them."""


class AgentPipelineStarted(Envelope):
    """A pipeline of agents begins."""

    event_type: Literal["agent.pipeline.started"] = "agent.pipeline.started"
    request_id: str
    pipeline_type: Name
    agent_sequence: list[str] | None = None
    sequence_length: Count | None = None
    user_prompt: str | None = None
    input: Any = None
    """Arguments by name."""
    user_timezone: str | None = None
    user_id: str | None = None
    parent_trace_id: TraceId | None = None
    repeats_execution_id: str | None = None


class AgentPipelineCompleted(Envelope):
    """A pipeline of agents ended."""

    event_type: Literal["agent.pipeline.completed"] = "agent.pipeline.completed"
    request_id: str
    pipeline_type: Name
    status: str
    """`success`, `partial_success`, `failed` or `cancelled`."""
    final_outcome: str | None = None
    total_execution_time_ms: Count
    agent_sequence: list[str] | None = None
    """Agents of this process in the order in which they began."""
    sequence_length: Count | None = None
    agents_executed: Count
    agents_succeeded: Count
    agents_failed: Count
    agents_retried: Count
    output_summary: str | None = None
    output: Any = None
    """Result; of a generator, the items it yielded."""
    final_confidence: Ratio | None = None
    agents_cancelled: Count | None = None
    agents_replaced: Count | None = None
    """Agents that failed and whose fallback delivered the result; `agents_failed` has the others."""
    agent_results: list[dict[str, Any]] | None = None
    """Results of this process's agents in order of completion: name, execution, status, duration …"""
    total_llm_tokens: Count | None = None
    total_llm_cost_usd: float | None = None
    error_type: str | None = None
    error_message: str | None = None
    error_code: str | None = None
    error_category: str | None = None
    stage: str | None = None
    stack_trace: str | None = None
    propagated: bool | None = None
    origin_execution_id: str | None = None
    timeout_seconds: float | None = None
    cancel_reason: str | None = None
    was_retried: bool | None = None
    """Whether an outer loop retried the pipeline, as for agent executions."""
    retry_count: Count | None = None
    repeats_execution_id: str | None = None
    repeats_status: str | None = None


class AgentExecutionCancelled(Envelope):
    """An execution was stopped from outside: not a failure of the agent."""

    event_type: Literal["agent.execution.cancelled"] = "agent.execution.cancelled"
    agent_name: Name
    agent_version: str | None = None
    request_id: str
    cancel_reason: str | None = None
    stage: str | None = None
    partial_output: dict[str, Any] | None = None
    was_retried: bool = False
    retry_count: Count = 0
    execution_time_before_cancel_ms: Count
    attempts_made: Count | None = None
    repeats_execution_id: str | None = None
    repeats_status: str | None = None
    wasted_cost_usd: float | None = None


class EndedCall(Envelope):
    """Fields of calls inside of an agent; those of the error are null if there was none."""

    agent_name: Name | None = None
    request_id: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    error_code: str | None = None
    error_category: str | None = None


class AgentLlmCalled(EndedCall):
    """One call to a model, ended."""

    event_type: Literal["agent.llm.called"] = "agent.llm.called"
    operation: str = "chat"
    llm_provider: str | None = None
    llm_model: str | None = None
    """Model that responded."""
    llm_model_requested: str | None = None
    temperature: float | None = None
    max_tokens: Count | None = None
    enable_thinking: bool | None = None
    thinking_budget: Count | None = None
    status: str
    """`success`, `failed` or `cancelled`."""
    duration_ms: Count
    time_to_first_token_ms: Count | None = None
    tokens_per_second: float | None = None
    """Tokens of the response per second of generation."""
    was_streamed: bool | None = None
    llm_tokens_used: Count | None = None
    llm_prompt_tokens: Count | None = None
    llm_completion_tokens: Count | None = None
    llm_cached_tokens: Count | None = None
    """Tokens of the prompt that were read from a cache."""
    llm_cache_creation_tokens: Count | None = None
    """Tokens of the prompt that were written to a cache."""
    llm_reasoning_tokens: Count | None = None
    llm_cost_usd: float | None = None
    finish_reason: str | None = None
    input_messages: list[Any] | None = None
    output_messages: list[Any] | None = None
    tool_definitions: list[Any] | None = None
    """Tools that were offered to the model, as they were sent."""
    request_parameters: dict[str, Any] | None = None
    """Options of the request that are not content: `temperature`, `response_format` …"""
    input_summary: str | None = None
    """Text of the last message that was sent."""
    output_summary: str | None = None
    """Text of the response, else the names of the tools that it calls."""
    tool_call_ids: list[str] | None = None


class AgentToolCalled(EndedCall):
    """One call of a tool, ended."""

    event_type: Literal["agent.tool.called"] = "agent.tool.called"
    tool_name: Name
    tool_call_id: str | None = None
    tool_type: str | None = None
    arguments: Any = None
    result: Any = None
    result_summary: str | None = None
    result_size_bytes: Count | None = None
    status: str
    """`success`, `failed` or `cancelled`."""
    duration_ms: Count


class AgentStepCompleted(EndedCall):
    """A step inside an agent, ended."""

    event_type: Literal["agent.step.completed"] = "agent.step.completed"
    step_name: Name
    step_type: str | None = None
    status: str
    """`success`, `failed` or `cancelled`."""
    duration_ms: Count
    confidence: Ratio | None = None
    input_summary: str | None = None
    output_summary: str | None = None
    input: Any = None
    """Arguments by name."""
    output: Any = None
    """Result; of a generator, the items it yielded."""
    output_items: Count | None = None
    stage: str | None = None


class AgentRetrievalCompleted(EndedCall):
    """A search for documents, ended."""

    event_type: Literal["agent.retrieval.completed"] = "agent.retrieval.completed"
    retrieval_name: Name
    collection: str | None = None
    query: str | None = None
    top_k: Count | None = None
    result_count: Count | None = None
    documents: list[dict[str, Any]] | None = None
    """`id` and `score` of each document; null where unknown."""
    input: Any = None
    """Arguments by name."""
    output: Any = None
    """Result; of a generator, the items it yielded."""
    is_empty: bool | None = None
    degraded: bool = False
    """Whether the result is degraded: a source was unavailable or a limit was hit."""
    degraded_reason: str | None = None
    status: str
    """`success`, `failed` or `cancelled`."""
    duration_ms: Count
    stage: str | None = None


class AgentMessageNormalized(Envelope):
    """One message or stream part of a provider, in the canonical form."""

    event_type: Literal["agent.message.normalized"] = "agent.message.normalized"
    agent_name: Name | None = None
    request_id: str | None = None
    message_id: str | None = None
    message_type: Name
    role: str | None = None
    content: Any = None
    original_index: Count
    block_index: Count | None = None
    is_final: bool | None = None
    persistence_strategy: str | None = None
    llm_provider: str | None = None
    llm_model: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    stop_reason: str | None = None
    raw: Any = None


class AgentTapeRecorded(Envelope):
    """Part of a run's tape, from which it can be re-executed."""

    event_type: Literal["agent.tape.recorded"] = "agent.tape.recorded"
    tape_id: Name
    """Tape id, shared by its parts; `part` numbers them from 0."""
    tape_version: Count
    part: Count
    records: list[dict[str, Any]]
    """Started and ended calls with their values; see `docs/sdk/replay.md`."""
    replayed: bool | None = None
    """Whether this is the report of a re-execution."""


class CustomEvent(Envelope):
    """A user's own type: the name begins with `custom.`, the rest is theirs."""

    event_type: Annotated[str, Field(pattern=r"^custom\.[A-Za-z0-9_.:-]{1,120}$")]
    agent_name: Name | None = None


EVENT_MODELS: Final[tuple[type[Envelope], ...]] = (
    AgentExecutionStarted,
    AgentExecutionCompleted,
    AgentExecutionFailed,
    AgentDecisionRecorded,
    AgentRetryAttempted,
    AgentFallbackTriggered,
    AgentPipelineStarted,
    AgentPipelineCompleted,
    AgentExecutionCancelled,
    AgentLlmCalled,
    AgentToolCalled,
    AgentStepCompleted,
    AgentRetrievalCompleted,
    AgentMessageNormalized,
    AgentTapeRecorded,
)

EVENT_TYPES: Final[dict[str, type[Envelope]]] = {
    model.model_fields["event_type"].default: model for model in EVENT_MODELS
}


class UnknownEventTypeError(ValueError):
    """Unknown event type: neither in the contract nor `custom.`."""

    def __init__(self, event_type: object) -> None:
        known = ", ".join(sorted(EVENT_TYPES))
        super().__init__(
            f"event_type: {event_type!r} is unknown; expected one of {known},"
            " or a name beginning with 'custom.'"
        )


def model_for(event_type: object) -> type[Envelope]:
    """Return the model of an event type.

    Raises:
        UnknownEventTypeError: the type is not in the contract and does not begin with `custom.`.
    """
    if isinstance(event_type, str):
        if (model := EVENT_TYPES.get(event_type)) is not None:
            return model
        if event_type.startswith(CUSTOM_PREFIX):
            return CustomEvent
    raise UnknownEventTypeError(event_type)


def parse_event(event: dict[str, Any]) -> Envelope:
    """Validate an event and return its typed model."""
    return model_for(event.get("event_type")).model_validate(event)
