"""Table of attribute names by meaning across dialects, the most reliable first.

A slot is one property of a span. Each attribute name belongs to exactly one slot; within a slot the
first name with a value wins, independent of the span's other attributes: spans mix dialects, so no
dialect is chosen per span.
"""

from typing import Final

SLOTS: Final[dict[str, tuple[str, ...]]] = {
    "kind": (
        "gen_ai.operation.name",
        "openinference.span.kind",
        "traceloop.span.kind",
        "llm.request.type",
        "ai.operationId",
        "langfuse.observation.type",
        "mlflow.spanType",
        "lmnr.span.type",
        "langsmith.span.kind",
    ),
    # Names whose values give the kind of a span only if they are among `MARKS`.
    "mark": ("logfire.msg_template", "span.type"),
    "mcp_method": ("mcp.method.name",),
    "provider": (
        "langsmith.metadata.ls_provider",
        "gen_ai.provider.name",
        "gen_ai.system",
        "llm.provider",
        "llm.system",
        "ai.model.provider",
        "mlflow.llm.provider",
    ),
    "model_requested": (
        "gen_ai.request.model",
        "llm.request.model_name",
        "ai.model.id",
    ),
    "model_served": (
        "gen_ai.response.model",
        "llm.response.model_name",
        "ai.response.model",
    ),
    # Dialects with one name for the requested and the served model.
    "model": (
        "llm.model_name",
        "embedding.model_name",
        "reranker.model_name",
        "langfuse.observation.model.name",
        "mlflow.llm.model",
        "llm.model",
    ),
    # Request parameters in one JSON object.
    "parameters_json": ("llm.invocation_parameters", "mlflow.spanInputs"),
    # Names that mean a model, tool, session … only beside a kind that is known otherwise.
    "bare_model": ("model",),
    "bare_name": ("name",),
    "bare_tool": ("tool_name",),
    "bare_session": ("group_id",),
    "prompt_tokens": (
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "llm.token_count.prompt",
        "llm.usage.prompt_tokens",
        "ai.usage.inputTokens",
        "ai.usage.promptTokens",
        "ai.usage.tokens",
        "gen_ai.aggregated_usage.input_tokens",
        "input_tokens",
    ),
    "completion_tokens": (
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "llm.token_count.completion",
        "llm.usage.completion_tokens",
        "ai.usage.outputTokens",
        "ai.usage.completionTokens",
        "gen_ai.aggregated_usage.output_tokens",
        "output_tokens",
    ),
    "total_tokens": (
        "gen_ai.usage.total_tokens",
        "llm.token_count.total",
        "llm.usage.total_tokens",
        "ai.usage.totalTokens",
        "llm.tokens_used",
    ),
    "cache_read_tokens": (
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_read",
        "ai.usage.inputTokenDetails.cacheReadTokens",
        "ai.usage.cachedInputTokens",
        "gen_ai.usage.details.cache_read_tokens",
        "gen_ai.usage.details.cache_read_input_tokens",
        "gen_ai.aggregated_usage.cache_read.input_tokens",
        "cache_read_tokens",
    ),
    "cache_write_tokens": (
        "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "llm.token_count.prompt_details.cache_write",
        "ai.usage.inputTokenDetails.cacheWriteTokens",
        "gen_ai.usage.details.cache_write_tokens",
        "gen_ai.usage.details.cache_creation_input_tokens",
        "gen_ai.aggregated_usage.cache_creation.input_tokens",
        "cache_creation_tokens",
    ),
    "reasoning_tokens": (
        "gen_ai.usage.reasoning.output_tokens",
        "gen_ai.usage.reasoning_tokens",
        "llm.usage.reasoning_tokens",
        "llm.token_count.completion_details.reasoning",
        "ai.usage.outputTokenDetails.reasoningTokens",
        "ai.usage.reasoningTokens",
        "gen_ai.usage.details.reasoning_tokens",
    ),
    # Counts in one JSON object, as returned by the provider or keyed by part.
    "usage_json": (
        "langfuse.observation.usage_details",
        "gen_ai.usage.raw",
        "mlflow.chat.tokenUsage",
        "langsmith.metadata.usage_metadata",
        # LiteLLM sends Python's text of it.
        "metadata.usage_object",
    ),
    "input_details_json": ("gen_ai.usage.input_token_details",),
    "output_details_json": ("gen_ai.usage.output_token_details",),
    "cost": (
        "gen_ai.usage.cost.amount",
        "gen_ai.usage.cost",
        "llm.cost.total",
        "gen_ai.token.cost.total",
        "operation.cost",
        "gen_ai.cost.total_cost",
        "llm.cost_usd",
    ),
    "cost_currency": ("gen_ai.usage.cost.currency",),
    "cost_json": ("langfuse.observation.cost_details",),
    "agent": (
        "gen_ai.agent.name",
        "agent.name",
        "agent_name",
        "lk.agent_name",
        "langsmith.metadata.lc_agent_name",
        "traceloop.association.properties.lc_agent_name",
        "ai.telemetry.functionId",
        "gen_ai.agent.id",
    ),
    # Metadata of LangChain in one JSON object.
    "metadata_json": ("metadata",),
    "node": ("graph.node.id",),
    # The readable name where the name of a span is a template.
    "message": ("logfire.msg",),
    "entity": ("traceloop.entity.name",),
    "workflow": (
        "gen_ai.workflow.name",
        "traceloop.workflow.name",
        "pipeline.type",
        "langfuse.trace.name",
    ),
    "session": (
        "gen_ai.conversation.id",
        "session.id",
        "langfuse.session.id",
        "traceloop.association.properties.session_id",
        "lmnr.association.properties.session_id",
        "langsmith.trace.session_id",
        "langsmith.metadata.session_id",
        "langsmith.metadata.thread_id",
        "ai.telemetry.metadata.sessionId",
        "ai.settings.context.sessionId",
        "gcp.vertex.agent.session_id",
        "mlflow.trace.session",
    ),
    "user": (
        "user.id",
        "enduser.id",
        "langfuse.user.id",
        "gen_ai.user",
        "gen_ai.request.user",
        "llm.user",
        "traceloop.association.properties.user_id",
        "lmnr.association.properties.user_id",
        "langsmith.metadata.user_id",
        "ai.telemetry.metadata.userId",
        "ai.settings.context.userId",
        "gcp.vertex.agent.user_id",
        "mlflow.trace.user",
    ),
    "finish_reason": (
        "gen_ai.response.finish_reasons",
        "gen_ai.response.finish_reason",
        "gen_ai.response.stop_reason",
        "gen_ai.agent.finish_reason",
        "llm.finish_reason",
        "llm.response.finish_reason",
        "llm.response.stop_reason",
        "ai.response.finishReason",
        "gen_ai.completion.0.finish_reason",
        "anthropic.message.stop_reason",
        "stop_reason",
    ),
    "tool": ("gen_ai.tool.name", "tool.name", "tool_call.function.name", "ai.toolCall.name"),
    "tool_call_id": ("gen_ai.tool.call.id", "tool.id", "tool_call.id", "ai.toolCall.id"),
    "response_id": ("gen_ai.response.id", "ai.response.id", "response_id"),
    "error": ("error.type", "exception.type"),
    "first_token_seconds": (
        "gen_ai.response.time_to_first_chunk",
        "gen_ai.client.operation.time_to_first_chunk",
        "gen_ai.client.inference.time_to_first_chunk",
        "gen_ai.server.time_to_first_token",
    ),
    "first_token_ms": ("llm.time_to_first_token_ms", "ai.response.msToFirstChunk", "ttft_ms"),
    "first_token_at": ("langfuse.observation.completion_start_time",),
    # `pending_span`: Logfire's placeholder for a span that is sent again when it has ended.
    "announcement": ("logfire.span_type",),
}

KINDS: Final[dict[str, tuple[str, ...]]] = {
    "agent": ("invoke_agent", "agent"),
    "create_agent": ("create_agent",),
    "workflow": ("invoke_workflow", "workflow"),
    "step": (
        "step",
        "chain",
        "task",
        "execute_task",
        "agent_step",
        "span",
        "default",
        "goto",
        "ai.generatetext",
        "ai.streamtext",
        "ai.generateobject",
        "ai.streamobject",
        "ai.embed",
        "ai.embedmany",
        "ai.rerank",
    ),
    "llm": (
        "chat",
        "text_completion",
        "generate_content",
        "completion",
        "llm",
        "llm_request",
        "chat_model",
        "generation",
        "response",
        "responses",
        "ai.generatetext.dogenerate",
        "ai.streamtext.dostream",
        "ai.generateobject.dogenerate",
        "ai.streamobject.dostream",
    ),
    "embedding": (
        "embeddings",
        "embedding",
        "ai.embed.doembed",
        "ai.embedmany.doembed",
    ),
    "rerank": ("rerank", "reranker", "ai.rerank.dorerank"),
    "retrieval": ("retrieval", "retriever", "vector_db_retrieve"),
    "tool": ("execute_tool", "tool", "ai.toolcall"),
    "plan": ("plan",),
    "memory": (
        "create_memory_store",
        "delete_memory_store",
        "create_memory",
        "update_memory",
        "upsert_memory",
        "delete_memory",
        "search_memory",
    ),
    "fetch": ("fetch_response",),
    "guardrail": ("guardrail",),
    "evaluator": ("evaluator", "evaluation"),
    "prompt": ("prompt",),
    "event": ("event",),
}
"""Words for each canonical kind, in lower case; any other word is of kind `other`."""

MARKS: Final[dict[str, tuple[str, ...]]] = {
    "agent": ("agent run: {name!r}",),
    "tool": ("function: {name}", "tool"),
    "llm": ("responses api with {gen_ai.request.model!r}", "llm_request"),
    "workflow": ("openai agents trace: {name}", "interaction"),
}
"""Values of the slot `mark` for each canonical kind, in lower case; others have no meaning."""

NAMED_KINDS: Final = (
    # Google ADK 1 sends no attributes about agents, nor about calls that failed.
    ("gcp.vertex.agent", r"^agent_run \\[", "agent"),
    ("gcp.vertex.agent", r"^call_llm$", "llm"),
)
"""Scope, pattern of the span's name, and kind of spans that no attribute describes."""

NO_CALLS: Final = (
    # LlamaIndex puts the request together in a span of kind LLM.
    ("openinference.instrumentation.llama_index", r"\\._prepare_chat_with_tools$", "step"),
)
"""The same for spans whose attributes name another kind."""

DIRECT_KINDS: Final = ("llm", "embedding", "rerank")
"""Kinds whose usage is their own. That of other kinds is the sum of their children."""

PROVIDERS: Final[dict[str, tuple[str, ...]]] = {
    "openai": ("openai.chat", "openai.responses", "openai.completion", "openai.embedding"),
    "azure.ai.openai": (
        "az.ai.openai",
        "azure",
        "azure_openai",
        "azure-openai",
        "azure-openai.chat",
        "azure-openai.responses",
    ),
    "azure.ai.inference": ("az.ai.inference",),
    "anthropic": ("anthropic.messages",),
    "aws.bedrock": ("aws", "amazon", "bedrock", "aws_bedrock", "amazon-bedrock"),
    "gcp.gemini": ("google", "gemini", "google_genai", "google.generative-ai", "gcp.gen_ai"),
    "gcp.vertex_ai": (
        "vertexai",
        "vertex_ai",
        "google_vertexai",
        "google.vertex",
        "google.vertex.chat",
    ),
    "mistral_ai": ("mistral", "mistralai", "mistral.chat"),
    "x_ai": ("xai", "xai.chat"),
    "moonshot_ai": ("moonshot",),
    "together_ai": ("together", "togetherai.chat"),
    "cohere": ("cohere.chat",),
    "deepseek": ("deepseek.chat",),
    "groq": ("groq.chat",),
}
"""Other spellings of each canonical provider (OpenTelemetry's name); others stay unchanged."""

FRAMEWORKS: Final = ("gcp.vertex.agent", "langchain", "langgraph", "crewai", "litellm")
"""Names that are sent as provider and are none: the provider is unknown, or the model's prefix."""

FINISH_REASONS: Final[dict[str, tuple[str, ...]]] = {
    "stop": ("end_turn", "stop_sequence", "eos", "complete", "completed"),
    "length": ("max_tokens", "max_output_tokens", "model_length"),
    "tool_call": ("tool_calls", "tool-calls", "tool_use", "function_call"),
    "content_filter": ("content-filter", "safety", "refusal", "guardrail_intervened"),
}
"""Providers' words for each of OpenTelemetry's finish reasons; others stay unchanged."""
