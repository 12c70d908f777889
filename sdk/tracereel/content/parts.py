"""Conversion of one block of a message, in any provider's form, into parts."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tracereel.content.media import MEDIA, citation, google_media, media_part
from tracereel.content.model import Part
from tracereel.content.reading import (
    count,
    cut_beside,
    cut_of,
    first,
    items,
    mapping,
    parsed,
    plain,
    text,
    word,
)

MAX_PARTS: Final = 5_000
"""Parts of one message; more are left out."""
_TEXTS: Final = frozenset({"text", "input_text", "output_text", "summary_text", "plain_text"})
_THOUGHTS: Final = frozenset({"thinking", "reasoning", "thought", "reasoning_text"})
_CALLS: Final = frozenset(
    {
        *("tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "tool-call", "function_call"),
        *(
            "custom_tool_call",
            "server_tool_call",
            "builtin-tool-call",
            "function",
            "tool_call_chunk",
        ),
        *("non_standard_tool_call", "invalid_tool_call", "native-tool-call"),
    }
)
_RESULTS: Final = frozenset(
    {
        *("tool_result", "tool-result", "tool_call_response", "function_call_output"),
        *("custom_tool_call_output", "computer_call_output", "local_shell_call_output"),
        *("server_tool_call_response", "tool-return", "builtin-tool-return", "shell_call_output"),
        *("tool_call_result", "server_tool_result", "native-tool-return"),
    }
)
_PROVIDER_CALLS: Final = frozenset(
    {
        *("web_search_call", "file_search_call", "code_interpreter_call", "computer_call"),
        *("mcp_call", "local_shell_call", "image_generation_call", "shell_call"),
    }
)
"""Tools that the provider of the Responses API runs itself: call and result are one item."""
_CITATIONS: Final = frozenset(
    {"source", "source-url", "source-document", "url_citation", "citation", "file_citation"}
)
_WRAPPERS: Final = ("message_content", "prompt", "completion")
"""OpenInference's objects around a block or a text."""
_GOOGLE: Final = (
    *("functionCall", "function_call", "functionResponse", "function_response"),
    *("inlineData", "inline_data", "fileData", "file_data", "executableCode", "executable_code"),
    *("codeExecutionResult", "code_execution_result"),
)


def parts_of(content: Any, *, depth: int = 4) -> list[Part]:
    """Return the parts of a message's content: a text, a block, or a list of them."""
    if content is None:
        return []
    if isinstance(content, str):
        return [text_part(content)] if content else []
    if isinstance(content, list | tuple):
        found: list[Part] = []
        for block in content:
            found += parts_of(block, depth=depth - 1) if depth > 0 else [data_part(block)]
            if len(found) >= MAX_PARTS:
                break
        return found[:MAX_PARTS]
    if not mapping(content):
        return [data_part(content)] if content != {} else []
    return _block(mapping(content), depth)


def text_part(said: str) -> Part:
    """Return a text as a part."""
    said = text(said)
    return Part(type="text", text=said, cut=cut_of(said))


def data_part(value: Any) -> Part:
    """Return a value of an unknown form as a part, unchanged."""
    return Part(type="data", value=plain(value))


def call_part(call: Any) -> Part:
    """Return a tool call as a part."""
    fields = mapping(call)
    function = mapping(first(fields, "function", "custom"))
    name = first(function, "name") or first(fields, "name", "tool_name", "toolName")
    given = first(function, "arguments", "input")
    if given is None:
        given = first(
            fields,
            *("arguments", "args", "input", "parameters", "server_tool_call", "arguments_text"),
            "value",  # of our own form
        )
    ids = ("call_id", "toolCallId", "tool_call_id", "toolUseId", "id")
    return Part(
        type="tool_call",
        id=word(first(fields, *ids)),
        name=word(name),
        value=plain(parsed(given)),
    )


def result_part(fields: Mapping[str, Any], value: Any, call_id: Any = None) -> list[Part]:
    """Return a tool's result as parts: the result, then its images and files."""
    said, others = _result_value(value)
    names = ("tool_use_id", "call_id", "tool_call_id", "toolCallId", "toolUseId", "id")
    failed = first(fields, "is_error", "isError")
    if failed is None and (fields.get("status") == "error" or fields.get("outcome") == "failed"):
        failed = True
    if isinstance(said, dict) and fields.get("type") not in ("tool_result", "tool"):
        said, failed = _unwrapped(said, failed)
    return [
        Part(
            type="tool_result",
            id=word(call_id) or word(first(fields, *names)),
            name=word(first(fields, "tool_name", "toolName", "name")),
            value=plain(said),
            is_error=failed if isinstance(failed, bool) and failed else None,
            cut=cut_of(said) if isinstance(said, str) else None,
        ),
        *others,
    ]


def _unwrapped(said: dict[str, Any], failed: Any) -> tuple[Any, Any]:
    """Return the value inside of `{"result": …}`, `{"error": …}` and typed outputs."""
    kind = said.get("type")
    if kind in ("text", "json", "error-text", "error-json", "content") and "value" in said:
        value, others = _result_value(said["value"])
        return value if not others else said["value"], failed or str(kind).startswith("error")
    if len(said) == 1:
        ((name, value),) = said.items()
        if name in ("result", "output"):
            return parsed(value), failed
        if name == "error":
            return value, True
    return said, failed


def _result_value(value: Any) -> tuple[Any, list[Part]]:
    """Return a tool's result, texts joined, and the images and files in it."""
    blocks = parsed(value)
    if isinstance(blocks, list) and blocks and all(_is_block(each) for each in blocks[:MAX_PARTS]):
        found = parts_of(blocks)
        if all(each.type != "data" for each in found):
            texts = [each.text or "" for each in found if each.type == "text"]
            others = [each for each in found if each.type != "text"]
            said = parsed(texts[0]) if len(texts) == 1 else "\n".join(texts)
            return (said if texts else None), others
    if isinstance(blocks, dict) and _is_block(blocks) and blocks.get("type") in MEDIA:
        found = parts_of(blocks)
        if found and found[0].type != "data":
            return None, found
    return blocks, []


def _is_block(value: Any) -> bool:
    kind = mapping(value).get("type")
    return isinstance(kind, str) and (kind in _TEXTS or kind in MEDIA)


def _block(block: Mapping[str, Any], depth: int) -> list[Part]:
    if depth <= 0:
        return [data_part(block)]
    if mapping(wrapped := block.get("tool_call")) and "type" not in block:
        return [call_part(wrapped)]  # OpenInference's objects around a block
    if len(block) == 1:
        for name in _WRAPPERS:
            if mapping(wrapped := block.get(name)):
                return _block(mapping(wrapped), depth - 1)
    kind = first(block, "type", "part_kind", "kind")
    if not isinstance(kind, str):
        return _untyped(block)
    if kind in _TEXTS:
        return _text(block)
    if kind in _THOUGHTS:
        return _thinking(block)
    if kind in _CALLS:
        return [call_part(_called(kind, block))]
    if kind in _RESULTS or kind.endswith("_tool_result"):
        return _answered(block)
    if kind in MEDIA:
        part = media_part(kind, block)
        return [part] if part is not None else [data_part(block)]
    if kind in _OTHERS:
        return _OTHERS[kind](block)
    if kind in _PROVIDER_CALLS:
        return _provider_call(kind, block)
    if kind in _CITATIONS:
        return [citation(block)]
    if kind.startswith("tool-") and "toolCallId" in block:
        return _ui_tool(kind.removeprefix("tool-"), block)
    return [data_part(block)]


def _text(block: Mapping[str, Any]) -> list[Part]:
    said = first(block, "text", "content")
    if isinstance(said, dict):
        said = said.get("value")
    found = [text_part(said)] if isinstance(said, str) and said else []
    if found and (cut := cut_beside(block, "text", said)) is not None:
        found = [Part(type="text", text=found[0].text, cut=cut)]
    if said is not None and not isinstance(said, str):
        return [data_part(block)]
    for name in ("citations", "annotations"):
        found += [citation(each) for each in items(block.get(name))[:MAX_PARTS]]
    return found


def _thinking(block: Mapping[str, Any]) -> list[Part]:
    names = ("thinking", "reasoning", "reasoning_content", "text", "content", "summary", "thought")
    for name in names:
        found = block.get(name)
        said = found if isinstance(found, str) else _joined(found)
        if said:
            return [Part(type="thinking", text=text(said), cut=cut_of(said))]
    # The SDK records the size of thinking in its place, unless it was asked to store it.
    return [Part(type="thinking", size=count(block.get("size_bytes")))]


def _joined(blocks: Any) -> str:
    """Return the texts of a list of summaries."""
    texts = [
        each if isinstance(each, str) else first(mapping(each), "text", "content")
        for each in items(blocks)[:MAX_PARTS]
    ]
    return "\n\n".join(each for each in texts if isinstance(each, str))


def _redacted(block: Mapping[str, Any]) -> list[Part]:
    """Return thinking that the provider encrypted: only its size is known."""
    hidden = first(block, "data", "content")
    return [Part(type="thinking", size=len(hidden) if isinstance(hidden, str) else None)]


def _refusal(block: Mapping[str, Any]) -> list[Part]:
    said = first(block, "refusal", "text", "content")
    return [Part(type="refusal", text=text(said) if isinstance(said, str) else None)]


def _called(kind: str, block: Mapping[str, Any]) -> Mapping[str, Any]:
    if kind == "mcp_tool_use" and (server := word(block.get("server_name"))):
        return {**block, "name": f"{server}.{word(block.get('name')) or ''}"}
    return block


def _answered(block: Mapping[str, Any]) -> list[Part]:
    names = ("content", "output", "result", "response", "server_tool_call_response", "value")
    return result_part(block, first(block, *names))


def _retry_prompt(block: Mapping[str, Any]) -> list[Part]:
    """Return pydantic-ai's request to call a tool again."""
    if block.get("tool_name") is None:
        return parts_of(block.get("content"), depth=2)
    return result_part({**block, "is_error": True}, block.get("content"))


def _prompt(block: Mapping[str, Any]) -> list[Part]:
    return parts_of(block.get("content"), depth=3)


def _provider_call(kind: str, item: Mapping[str, Any]) -> list[Part]:
    name = word(item.get("name")) or kind.removesuffix("_call")
    call_id = first(item, "call_id", "id")
    given = first(item, "arguments", "action", "code", "queries")
    found = [Part(type="tool_call", id=word(call_id), name=name, value=plain(parsed(given)))]
    if isinstance(error := item.get("error"), str | dict):
        return [*found, *result_part({"is_error": True, "name": name}, error, call_id)]
    said = first(item, "output", "outputs", "results", "result")
    if kind == "image_generation_call" and isinstance(said, str):
        said = [{"type": "image", "base64": said, "mime_type": "image/png"}]
    return found if said is None else [*found, *result_part({"name": name}, said, call_id)]


def _ui_tool(name: str, block: Mapping[str, Any]) -> list[Part]:
    """Return a tool part of the Vercel AI SDK's UI messages."""
    call_id = block.get("toolCallId")
    given = plain(parsed(block.get("input")))
    found = [Part(type="tool_call", id=word(call_id), name=word(name), value=given)]
    if (error := block.get("errorText")) is not None:
        return [*found, *result_part({"is_error": True, "name": name}, error, call_id)]
    if (output := block.get("output")) is not None:
        return [*found, *result_part({"name": name}, output, call_id)]
    return found


def _untyped(block: Mapping[str, Any]) -> list[Part]:
    """Return the parts of a block without a type: Google's and Bedrock's."""
    call = first(block, "functionCall", "function_call", "toolUse")
    if mapping(call):
        return [call_part(call)]
    answer = mapping(first(block, "functionResponse", "function_response", "toolResult"))
    if answer:
        return result_part(answer, first(answer, "response", "content"))
    if (part := google_media(block)) is not None:
        return [part]
    code = first(block, "executableCode", "executable_code")
    if code is not None:
        return [Part(type="tool_call", name="code_execution", value=plain(code))]
    ran = first(block, "codeExecutionResult", "code_execution_result")
    if ran is not None:
        return [Part(type="tool_result", name="code_execution", value=plain(ran))]
    if mapping(hidden := block.get("reasoningContent")):
        said = mapping(mapping(hidden).get("reasoningText")).get("text")
        return [Part(type="thinking", text=said if isinstance(said, str) else None)]
    if block.get("thought") is True:
        return _thinking(block)
    said = block.get("text")
    if isinstance(said, str):
        return [text_part(said)] if said else []
    return [data_part(block)]


def is_block(block: Mapping[str, Any]) -> bool:
    """Return whether an object is a block of content rather than a message."""
    kind = first(block, "type", "part_kind")
    if isinstance(kind, str):
        return kind in _KNOWN or kind.endswith("_tool_result")
    return not block.keys().isdisjoint(_GOOGLE) or block.keys() in ({"text"}, {"text", "thought"})


_OTHERS: Final[dict[str, Callable[[Mapping[str, Any]], list[Part]]]] = {
    "redacted_thinking": _redacted,
    "refusal": _refusal,
    "retry-prompt": _retry_prompt,
    "user-prompt": _prompt,
    "system-prompt": _prompt,
    "instruction": _prompt,
    "step-start": lambda _: [],
}
_KNOWN: Final = frozenset().union(
    *(_TEXTS, _THOUGHTS, _CALLS, _RESULTS, _PROVIDER_CALLS, _CITATIONS, MEDIA, _OTHERS)
)
