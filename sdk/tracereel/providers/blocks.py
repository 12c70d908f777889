"""Reader of typed content blocks (Anthropic, OpenAI output items, LangChain standard blocks)."""

from typing import Any, Final

from tracereel.providers.answers import Answer
from tracereel.providers.citations import read_citation
from tracereel.providers.reading import first_text, get, items, mapping, plain_text, text
from tracereel.providers.usage import usage_of

TEXTS: Final = frozenset({"text", "output_text", "text-plain", "input_text"})
THOUGHTS: Final = frozenset({"thinking", "reasoning", "redacted_thinking", "reasoning_content"})
REQUESTS: Final = frozenset({"tool_use", "tool_call", "function_call", "custom_tool_call"})
REQUESTS_AT_PROVIDER: Final = frozenset({"server_tool_use", "mcp_tool_use", "server_tool_call"})
RESULTS: Final = frozenset({"tool_result", "function_call_output", "function_response"})
PARTS_OF_REQUESTS: Final = frozenset({"input_json_delta", "tool_call_chunk"})
"""Blocks that LangChain leaves in merged streams beside the resulting tool calls."""


def read_blocks(answer: Answer, content: Any) -> None:
    """Add the pieces of a message's content (text or blocks) to its answer."""
    if content is None or content == "":
        return
    if isinstance(content, (str, dict)):
        content = [content]
    if not isinstance(content, list):
        answer.report("malformed_block", "content is neither text nor a list", None, content)
        return
    for index, block in enumerate(content):
        read_block(answer, block, index)


def read_block(answer: Answer, block: Any, index: int) -> None:
    """Add the piece of one block, or report it if it cannot be read."""
    if isinstance(block, str):
        if block:
            answer.say(block, index, block)
        return
    kind = text(block.get("type")) if isinstance(block, dict) else None
    if kind is None:
        answer.report("malformed_block", "a block has no type", index, block)
    elif kind == "non_standard" and isinstance(block.get("value"), dict):
        read_block(answer, block["value"], index)
    elif kind in TEXTS:
        _read_text(answer, block, index)
    elif kind in THOUGHTS:
        _read_thought(answer, block, index)
    elif kind in REQUESTS or kind in REQUESTS_AT_PROVIDER or kind == "invalid_tool_call":
        _read_request(answer, block, index, at_provider=kind in REQUESTS_AT_PROVIDER)
    elif kind in RESULTS or kind.endswith("_tool_result"):
        _read_result(answer, block, index, at_provider=kind not in RESULTS)
    elif kind == "refusal":
        answer.refusal = text(block.get("refusal")) or answer.refusal
    elif kind not in PARTS_OF_REQUESTS:
        answer.report("unknown_block", f"blocks of type {kind[:80]!r} are not known", index, block)


def _read_text(answer: Answer, block: dict[str, Any], index: int) -> None:
    content = block.get("text")
    before = answer.pieces[-1] if answer.pieces else None
    if content is None and items(block.get("citations")) and before and before.content is not None:
        # LangChain puts the citations of a streamed text into a separate block after it.
        found = [read_citation(each, before.content) for each in block["citations"]]
        before.citations += tuple(each for each in found if each is not None)
        return
    if not isinstance(content, str):
        answer.report("malformed_block", "a text block has no text", index, block)
        return
    citations = []
    for each in (*items(block.get("citations")), *items(block.get("annotations"))):
        citation = read_citation(each, content)
        if citation is None:
            answer.report("malformed_block", "a citation says nothing", index, each)
        else:
            citations.append(citation)
    if content or citations:
        answer.say(content, index, block, tuple(citations))


def _read_thought(answer: Answer, block: dict[str, Any], index: int) -> None:
    if block["type"] == "redacted_thinking":
        answer.think(None, index, block)
        return
    content = get(block, "thinking", "reasoning", "reasoning_content", "text")
    if isinstance(content, dict):  # Bedrock: {"reasoning_content": {"text": …}}
        content = content.get("text")
    if content is None:
        content = _summary(block)
    if content is None or isinstance(content, str):
        # A block with only a signature, or with reasoning that the provider encrypts.
        if content or block.get("encrypted_content"):
            answer.think(content or None, index, block)
        elif content is None and not block.get("signature") and "summary" not in block:
            answer.report("malformed_block", "a thinking block has no text", index, block)
    else:
        answer.report("malformed_block", "a thinking block's text is no text", index, block)


def _summary(block: dict[str, Any]) -> str | None:
    """Return OpenAI's reasoning: its text if available, else the paragraphs of its summary."""
    for name in ("content", "summary"):
        parts = [mapping(part).get("text") for part in items(block.get(name))]
        found = [part for part in parts if isinstance(part, str) and part]
        if found:
            return "\n\n".join(found)
    return None


def _read_request(answer: Answer, block: dict[str, Any], index: int, *, at_provider: bool) -> None:
    name = text(block.get("name"))
    if name is None:
        answer.report("malformed_block", "a tool request names no tool", index, block)
        return
    given = get(block, "input", "args", "arguments")
    own = text(block.get("id"))
    identity = text(block.get("call_id")) or own
    answer.request(
        index,
        identity=identity,
        provider_id=own if own != identity else None,
        name=name,
        arguments=given or text(block.get("partial_json")) or given,
        raw=block,
        at_provider=at_provider,
    )


def _read_result(answer: Answer, block: dict[str, Any], index: int, *, at_provider: bool) -> None:
    content = get(block, "content", "output", "response")
    flat = plain_text(content)
    error = None
    if (
        block.get("is_error") is True
        or block.get("status") == "error"
        or str(mapping(content).get("type", "")).endswith("_error")
    ):
        error = flat or text(mapping(content).get("error_code")) or "failed"
    answer.respond(
        index,
        identity=first_text(block, "tool_use_id", "tool_call_id", "call_id", "id"),
        name=text(block.get("name")),
        content=content if flat is None else flat,
        shown=flat,
        raw=block,
        error=error,
        at_provider=at_provider,
    )


def completed(answers: list[Answer], response: dict[str, Any]) -> list[Answer]:
    """Set the model and id of a response's answers; the last one has the usage of all."""
    for answer in answers:
        answer.model = first_text(response, "model", "modelVersion", "model_version")
        answer.message_id = first_text(response, "id", "responseId", "response_id")
    answers[-1].usage = usage_of(response)
    return answers
