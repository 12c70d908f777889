"""Spans made of the log records of coding agents: Claude Code, Codex and Gemini CLI.

They describe prompts, model calls and tool calls in log records without spans. A prompt becomes a run, or,
where records do not name their prompt, a session does. Ids are hashes of what was sent, so that a repeated
request makes the same spans.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tracereel_collector.ingest.otlp_events import NAME_ATTRIBUTE
from tracereel_collector.ingest.otlp_mend import MAX_UNIX_NANO
from tracereel_collector.ingest.otlp_values import as_plain

PROMPT, MODEL, TOOL, ANSWER = "invoke_agent", "chat", "execute_tool", "answer"


class CodingAgent(NamedTuple):
    """Coding agent, and how its records name their session and prompt."""

    name: str
    provider: str
    session: str
    prompt: str
    """Attribute with the id of the prompt that a record belongs to; '' if there is none."""
    more_input: tuple[str, ...] = ()
    """Counts that its count of input tokens leaves out."""
    more_output: tuple[str, ...] = ()
    """Counts that its count of output tokens leaves out."""


AGENTS: Final = {
    "claude_code": CodingAgent(
        *("claude-code", "anthropic", "session.id", "prompt.id"),
        more_input=("cache_read_tokens", "cache_creation_tokens"),
    ),
    "codex": CodingAgent("codex", "openai", "conversation.id", ""),
    "gemini_cli": CodingAgent(
        *("gemini-cli", "gcp.gemini", "session.id", "prompt_id"),
        more_input=("tool_token_count",),
        more_output=("thoughts_token_count",),
    ),
}
"""Coding agents by the first part of the names of their records."""
EVENTS: Final = {
    "claude_code.user_prompt": PROMPT,
    "claude_code.api_request": MODEL,
    "claude_code.api_error": MODEL,
    "claude_code.tool_result": TOOL,
    "claude_code.assistant_response": ANSWER,
    "codex.user_prompt": PROMPT,
    "codex.sse_event": MODEL,
    "codex.api_request": MODEL,
    "codex.tool_result": TOOL,
    "gemini_cli.user_prompt": PROMPT,
    "gemini_cli.api_response": MODEL,
    "gemini_cli.api_error": MODEL,
    "gemini_cli.tool_call": TOOL,
}
"""Kinds of records that become spans; others stay log records."""
COMPLETED: Final = "response.completed"
"""Kind of Codex's stream event that has the usage of a model call."""
FAILURES_ONLY: Final = frozenset({"codex.api_request"})
"""Records of attempts whose success another record describes."""
_PREFIXES: Final = tuple(f"{prefix}.".encode() for prefix in AGENTS)

_TEXTS: Final = {
    "gen_ai.request.model": ("model",),
    "gen_ai.tool.name": ("tool_name", "function_name"),
    "gen_ai.tool.call.id": ("tool_use_id", "call_id"),
    "gen_ai.tool.call.arguments": ("tool_input", "tool_parameters", "arguments", "function_args"),
    "user.id": ("user.id", "user.account_id", "installation.id"),
}
"""Names of attributes of spans, and the attributes of records with their values, the best first."""
_COUNTS: Final = {
    "input_tokens": ("input_tokens", "input_token_count"),
    "output_tokens": ("output_tokens", "output_token_count"),
    "cache_read.input_tokens": (
        *("cache_read_tokens", "cached_token_count", "cached_content_token_count"),
    ),
    "cache_write.input_tokens": ("cache_creation_tokens", "cache_write_token_count"),
    "reasoning.output_tokens": ("reasoning_token_count", "thoughts_token_count"),
}
_ERRORS: Final = ("error", "error.message")
_ERROR_TYPES: Final = ("error_type", "status_code", "http.response.status_code")
_CLAUDE_SCOPE: Final = "com.anthropic.claude_code"
_REDACTED: Final = frozenset({"", "<REDACTED>", "[REDACTED]"})
MAX_TOKENS: Final = 2**53


def may_hold_coding_agents(data: bytes) -> bool:
    """Return False only if no record of a body is of a coding agent; a cheap test."""
    return any(prefix in data for prefix in _PREFIXES)


def spans_of_coding_agents(request: ExportLogsServiceRequest) -> ExportTraceServiceRequest | None:
    """Return the spans that records of coding agents describe; None if there are none."""
    made = ExportTraceServiceRequest()
    for resource in request.resource_logs:
        shared = {each.key: as_plain(each.value) for each in resource.resource.attributes}
        of_resource = None
        for scope in resource.scope_logs:
            spans = list(_spans_of(scope, shared))
            if not spans:
                continue
            if of_resource is None:
                of_resource = made.resource_spans.add()
                of_resource.resource.CopyFrom(resource.resource)
            of_scope = of_resource.scope_spans.add()
            of_scope.scope.CopyFrom(scope.scope)
            of_scope.spans.extend(spans)
    return made if made.resource_spans else None


def _spans_of(scope: Any, shared: Mapping[str, Any]) -> Iterator[Span]:
    for record in scope.log_records:
        name = _name_of(record, scope.scope.name)
        if name in EVENTS:
            said = {**shared, **{each.key: as_plain(each.value) for each in record.attributes}}
            span = _span_of(record, name, said)
            if span is not None:
                yield span


def _name_of(record: LogRecord, scope: str) -> str:
    """Return the name of a record with its agent's prefix.

    Codex's field `event_name` is a place in its source; Claude Code's attribute lacks the prefix.
    """
    of_attribute = "".join(
        each.value.string_value for each in record.attributes if each.key == NAME_ATTRIBUTE
    )
    names = [of_attribute, record.event_name, record.body.string_value]
    if scope.startswith(_CLAUDE_SCOPE):
        names.append(f"claude_code.{of_attribute}")
    return next((name for name in names if name in EVENTS), "")


def _span_of(record: LogRecord, name: str, said: Mapping[str, Any]) -> Span | None:
    agent, kind = AGENTS[name.partition(".")[0]], EVENTS[name]
    session, prompt = _text(said, agent.session), _text(said, agent.prompt)
    has_trace = len(record.trace_id) == 16 and any(record.trace_id)
    moment = record.time_unix_nano or record.observed_time_unix_nano
    error, failed = _outcome(name, said)
    if (
        not (session or has_trace)
        or not 0 < moment <= MAX_UNIX_NANO
        or (name == "codex.sse_event" and said.get("event.kind") != COMPLETED)
        or (name in FAILURES_ONLY and not failed)
    ):
        return None
    trace_id = record.trace_id if has_trace else _digest(16, agent.name, session, prompt)
    root = _digest(8, "prompt", trace_id.hex(), prompt)
    is_root = kind == PROMPT and bool(prompt)
    parent = record.span_id if has_trace else b"" if kind == PROMPT else root
    took = int(1_000_000 * max(_number(said, "duration_ms") or 0, 0))
    span = Span(
        trace_id=trace_id,
        span_id=root
        if is_root
        else _digest(8, trace_id.hex(), record.SerializeToString(deterministic=True).hex()),
        parent_span_id=parent,
        kind=Span.SPAN_KIND_CLIENT if kind == MODEL else Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=max(1, moment - took),
        end_time_unix_nano=moment,
    )
    attributes = dict(_attributes(agent, kind, said))
    if session:
        attributes["gen_ai.conversation.id"] = session
    subject = attributes.get("gen_ai.request.model" if kind == MODEL else "gen_ai.tool.name", "")
    span.name = {
        PROMPT: f"{PROMPT} {agent.name}",
        MODEL: f"{MODEL} {subject}".strip(),
        TOOL: f"{TOOL} {subject}".strip(),
        ANSWER: "assistant_response",
    }[kind]
    if failed:
        span.status.code, span.status.message = Status.STATUS_CODE_ERROR, error
        attributes["error.type"] = _first(said, _ERROR_TYPES) or "_OTHER"
    for key, value in attributes.items():
        _set(span.attributes.add(key=key).value, value)
    return span


def _attributes(
    agent: CodingAgent, kind: str, said: Mapping[str, Any]
) -> Iterator[tuple[str, str | int | float]]:
    """Yield what a span says, in OpenTelemetry's names."""
    yield "gen_ai.operation.name", "step" if kind == ANSWER else kind
    yield "gen_ai.agent.name", _text(said, "agent.name") or agent.name
    for name, sources in _TEXTS.items():
        is_of_tool = name.startswith("gen_ai.tool.")
        if (text := _first(said, sources)) and is_of_tool <= (kind == TOOL):
            yield name, text
    if kind == PROMPT and (prompt := _text(said, "prompt")) not in _REDACTED:
        yield "gen_ai.input.messages", _message("user", prompt)
    if kind == ANSWER and (answer := _text(said, "response")) not in _REDACTED:
        yield "gen_ai.output.messages", _message("assistant", answer)
    if kind == TOOL and (result := _text(said, "output")):
        yield "gen_ai.tool.call.result", result
    if kind == MODEL:
        yield "gen_ai.provider.name", agent.provider
        yield from _usage(agent, said)


def _usage(agent: CodingAgent, said: Mapping[str, Any]) -> Iterator[tuple[str, str | int | float]]:
    more = {"input_tokens": agent.more_input, "output_tokens": agent.more_output}
    for name, sources in _COUNTS.items():
        counts = [_number(said, each) for each in sources]
        found = [count for count in counts if count is not None][:1]
        if found:
            found += [_number(said, each) or 0 for each in more.get(name, ())]
            yield f"gen_ai.usage.{name}", int(min(max(sum(found), 0), MAX_TOKENS))
    micros = _number(said, "cost_usd_micros")
    cost = micros / 1_000_000 if micros is not None else _number(said, "cost_usd")
    if cost is not None:
        yield "gen_ai.usage.cost", cost
    if (first_token := _number(said, "ttft_ms")) is not None:
        yield "gen_ai.response.time_to_first_chunk", first_token / 1000


def _outcome(name: str, said: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the reason of a failure, and whether it is one."""
    reason = _first(said, _ERRORS)
    status = _number(said, "http.response.status_code") or 0
    failed = (
        name.endswith("_error")
        or _text(said, "success").lower() == "false"
        or bool(_text(said, "error.message"))
        or (name in FAILURES_ONLY and status >= 400)
    )
    if failed and not reason:
        reason = _text(said, "output") or (f"HTTP {status:.0f}" if status else "")
    return reason, failed


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name) if name else None
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json.dumps(value)


def _first(said: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next(filter(None, (_text(said, name) for name in names)), "")


def _number(said: Mapping[str, Any], name: str) -> float | None:
    """Return a finite number; Codex sends numbers as text."""
    value = said.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if abs(number) < MAX_TOKENS else None


def _message(role: str, text: str) -> str:
    message = {"role": role, "parts": [{"type": "text", "content": text}]}
    return json.dumps([message], ensure_ascii=False)


def _set(value: Any, plain: str | float) -> None:
    kind = {str: "string_value", int: "int_value", float: "double_value"}[type(plain)]
    setattr(value, kind, plain)


def _digest(size: int, *parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=size).digest()
