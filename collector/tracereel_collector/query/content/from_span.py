"""Content of a step from a span of any dialect."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from tracereel.content import (
    Content,
    ModelCallContent,
    TokenUsage,
    ToolCallContent,
    ToolDefinition,
    ValueContent,
    answered,
    asked,
    messages_of,
    parameters_of,
    tools_of,
    usage_of_response,
)
from tracereel.content.reading import cut_inside, mapping, parsed, plain
from tracereel_collector.query.content.rows import ContentLog, ContentSpan
from tracereel_collector.query.content.span_messages import span_messages, unquoted, value_at
from tracereel_collector.query.jaeger.values import plain_value
from tracereel_collector.store.dialects.content import (
    ARGUMENTS,
    DOCUMENTS,
    FIRST_TOKEN_EVENTS,
    INPUT,
    MAYBE_SCHEMA,
    OTHER_ARGUMENTS,
    OTHER_RESULT,
    OTHER_WHOLE_INPUT,
    OTHER_WHOLE_OUTPUT,
    PARAMETER_PREFIXES,
    PARAMETERS,
    RESULT,
    TOOLS,
    USAGE_DETAILS,
    WHOLE_INPUT,
    WHOLE_OUTPUT,
)

Logs = Callable[[], Sequence[ContentLog]]
_STRING: Final = 1
_SCHEMA_WORDS: Final = frozenset({"properties", "$schema", "$defs", "additionalProperties"})
_NOT_OPTIONS: Final = ("model", "messages", "is_stream", "streaming")
_MODEL_KINDS: Final = ("llm", "embedding", "rerank")
_TOOL_KINDS: Final = ("tool", "mcp")


def content_of_span(span: ContentSpan, logs: Logs) -> Content:
    """Return the content of the step that a span describes."""
    if span.call_kind in _MODEL_KINDS:
        return model_call(span, logs)
    return tool_call(span) if span.call_kind in _TOOL_KINDS else value_step(span, logs)


def model_call(span: ContentSpan, logs: Logs) -> ModelCallContent:
    """Return the content of a model call."""
    given, said = span_messages(span, logs)
    first_token = _first_token_ms(span)
    output = span.completion_tokens
    seconds = (span.duration / 1e6 - (first_token or 0)) / 1e3
    finish = span.finish_reason or next(
        (each.finish_reason for each in said.messages if each.finish_reason), None
    )
    return ModelCallContent(
        input=given.messages,
        output=said.messages,
        tools=_tools(span.attributes),
        parameters=_parameters(span),
        model=span.model or None,
        provider=span.provider or None,
        finish_reason=finish,
        usage=_usage(span),
        first_token_ms=first_token,
        tokens_per_second=round(output / seconds, 3)
        if output and first_token is not None and seconds > 0
        else None,
        cut=given.cut,
    )


def _usage(span: ContentSpan) -> TokenUsage:
    parts = [usage_of_response(span.attributes.get(name)) for name in USAGE_DETAILS]

    def known(number: int | None, name: str) -> int | None:
        others = (getattr(part, name) for part in parts)
        return next((each for each in (number, *others) if each is not None), None)

    return TokenUsage(
        input=span.prompt_tokens,
        output=span.completion_tokens,
        total=span.total_tokens,
        cache_read=known(span.cache_read_tokens, "cache_read"),
        cache_write=known(span.cache_write_tokens, "cache_write"),
        reasoning=known(span.reasoning_tokens, "reasoning"),
    )


def tool_call(span: ContentSpan) -> ToolCallContent:
    """Return the content of a tool call."""
    attributes = span.attributes
    given = None
    for name in (*ARGUMENTS, *OTHER_ARGUMENTS):
        found = unquoted(attributes.get(name, ""))
        if found not in ("", None) and not (name == MAYBE_SCHEMA and _is_schema(found)):
            given = found
            break
    if given is None:
        given = _first(attributes, (*WHOLE_INPUT, *OTHER_WHOLE_INPUT))
    given = _arguments(given)
    result = _first(attributes, (*RESULT, *OTHER_RESULT, *WHOLE_OUTPUT, *OTHER_WHOLE_OUTPUT))
    given, result = plain(given), plain(_result(result))
    return ToolCallContent(
        name=span.tool_name or None,
        id=span.tool_call_id or None,
        arguments=given,
        result=result,
        cut=cut_inside([given, result]),
    )


def value_step(span: ContentSpan, logs: Logs) -> ValueContent:
    """Return input and output of an agent, workflow, retrieval or other step."""
    attributes = span.attributes
    given = _arguments(_first(attributes, (*WHOLE_INPUT, *OTHER_WHOLE_INPUT)))
    made = _made(_first(attributes, (*WHOLE_OUTPUT, *OTHER_WHOLE_OUTPUT)))
    if made is None:
        made = next(filter(None, (value_at(attributes, place) for place in DOCUMENTS)), None)
    question, answer = asked(given), answered(made)
    if given is None or made is None or question is None or answer is None:
        sides = span_messages(span, logs if span.call_kind else lambda: ())
        listed = [[_shown(each) for each in side.messages] or None for side in sides]
        given, made = (
            old if old is not None else new for old, new in zip((given, made), listed, strict=True)
        )
        question = question or asked(listed[0])
        answer = answer or answered(listed[1])
    given, made = plain(given), plain(made)
    return ValueContent(
        input=given,
        output=made,
        asked=question,
        answered=answer,
        cut=cut_inside([given, made]),
    )


def raw_of_span(span: ContentSpan, logs: Sequence[ContentLog]) -> dict[str, Any]:
    """Return the span's own attributes, events and log records, unchanged."""
    raw: dict[str, Any] = {"attributes": _typed(span.attributes, span.types)}
    events = [
        {
            "name": event.name,
            "unix_nano": event.unix_nano,
            "attributes": _typed(event.attributes, span.types),
        }
        for event in span.events
    ]
    if events:
        raw["span_events"] = events
    if logs:
        raw["logs"] = [
            {"name": log.name, "body": parsed(log.body), "attributes": log.attributes}
            for log in logs
        ]
    return raw


def _typed(attributes: Mapping[str, str], types: Mapping[str, int]) -> dict[str, Any]:
    return {name: plain_value(text, types.get(name, _STRING)) for name, text in attributes.items()}


def _shown(message: Any) -> dict[str, Any]:
    shown: dict[str, Any] = message.model_dump(exclude_none=True)
    return shown


def _first(attributes: Mapping[str, str], names: Iterable[str]) -> Any:
    for name in names:
        found = unquoted(attributes.get(name, ""))
        if found not in ("", None, [], {}):
            return found
    return None


def _arguments(value: Any) -> Any:
    """Return the arguments inside of an instrumentation's description of a call."""
    fields = mapping(value)
    if fields.keys() <= {"args", "kwargs", "sanitize_inputs_outputs"} and "kwargs" in fields:
        args, named = fields.get("args"), fields.get("kwargs")
        return value if args and named else (named or args)
    if "inputs" in fields and fields.keys() & {"tags", "metadata", "input_str", "kwargs"}:
        return parsed(fields["inputs"])
    return value


def _made(value: Any) -> Any:
    """Return the output inside of an instrumentation's description of a call."""
    fields = mapping(value)
    for name in ("outputs", "output"):
        if name in fields and fields.keys() <= {name, "kwargs", "tags", "metadata"}:
            return parsed(fields[name])
    return value


def _result(value: Any) -> Any:
    """Return a tool's result; of a framework's tool message its content."""
    value = _made(value)
    if isinstance(value, dict):
        if value.keys() >= {"raw_output", "tool_name"}:  # LlamaIndex
            return value["raw_output"]
        for message in messages_of(value, role="assistant"):
            for part in message.parts:
                if part.type == "tool_result" and message.role == "tool":
                    return part.value
    return value


def _is_schema(value: Any) -> bool:
    """Return whether a value describes arguments instead of being some."""
    fields = mapping(value)
    if not fields:
        return value in ({}, [])
    if not fields.keys().isdisjoint(_SCHEMA_WORDS):
        return True
    inner = [mapping(each) for each in fields.values()]
    return all(
        each and isinstance(each.get("type", ""), str) and not each.keys().isdisjoint(_DESCRIBES)
        for each in inner
    )


_DESCRIBES: Final = frozenset({"type", "anyOf", "$ref", "enum", "description", "title"})


def _tools(attributes: Mapping[str, str]) -> tuple[ToolDefinition, ...]:
    for place in TOOLS:
        value = value_at(attributes, place)
        if place in INPUT or place in PARAMETERS:  # a whole request: only if it says so
            value = mapping(value)
            value = value if value.keys() & {"tools", "functions", "config"} else None
        elif place == "model_request_parameters":
            value = mapping(value).get("function_tools")
        if value and (found := tools_of(value)):
            return found
    return ()


def _parameters(span: ContentSpan) -> dict[str, Any]:
    single: dict[str, Any] = {}
    for name, text in span.attributes.items():
        for prefix in PARAMETER_PREFIXES:
            option = name.removeprefix(prefix)
            if option != name and option not in _NOT_OPTIONS and not option.startswith("context."):
                single[option] = plain_value(text, span.types.get(name, _STRING))
    found = parameters_of(single)
    for place in PARAMETERS:
        for name, value in parameters_of(span.attributes.get(place)).items():
            found.setdefault(name, value)
    return found


def _first_token_ms(span: ContentSpan) -> float | None:
    if span.first_token_ms is not None and math.isfinite(span.first_token_ms):
        return max(0.0, span.first_token_ms)
    for event in span.events:
        if event.name in FIRST_TOKEN_EVENTS and event.unix_nano >= span.began:
            return (event.unix_nano - span.began) / 1e6
    return None
