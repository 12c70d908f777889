"""Reader of typed content blocks (Anthropic, OpenAI output items, LangChain standard blocks)."""

from typing import Any, Final

from tracereel.providers.answers import Answer, AnswerPiece
from tracereel.providers.base import Citation, ToolCall, ToolResult
from tracereel.providers.citations import read_citation
from tracereel.providers.reading import items, json_object, mapping, plain_text, text

TEXTS: Final = frozenset({"text", "output_text", "text-plain", "input_text"})
THOUGHTS: Final = frozenset({"thinking", "reasoning", "redacted_thinking", "reasoning_content"})
REQUESTS: Final = frozenset({"tool_use", "tool_call", "function_call", "custom_tool_call"})
REQUESTS_AT_PROVIDER: Final = frozenset({"server_tool_use", "mcp_tool_use", "server_tool_call"})
RESULTS: Final = frozenset({"tool_result", "function_call_output", "function_response"})
RESULTS_AT_PROVIDER: Final = frozenset({"server_tool_result", "mcp_tool_result"})
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
            answer.pieces.append(said(answer.role, block, index, raw=block))
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
    elif kind in REQUESTS or kind in REQUESTS_AT_PROVIDER:
        _read_request(answer, block, index, at_provider=kind in REQUESTS_AT_PROVIDER)
    elif kind == "invalid_tool_call":
        _read_request(answer, block, index, at_provider=False)
    elif kind in RESULTS:
        read_result(answer, block, index, at_provider=False)
    elif kind in RESULTS_AT_PROVIDER or kind.endswith("_tool_result"):
        read_result(answer, block, index, at_provider=True)
    elif kind == "refusal":
        answer.refusal = text(block.get("refusal")) or answer.refusal
    elif kind not in PARTS_OF_REQUESTS:
        answer.report("unknown_block", f"blocks of type {kind[:80]!r} are not known", index, block)


def said(
    role: str,
    content: str | None,
    index: int,
    *,
    citations: tuple[Citation, ...] = (),
    raw: Any = None,
) -> AnswerPiece:
    """Return a text piece for a role."""
    kind = "user_message" if role == "user" else "assistant_message"
    return AnswerPiece(kind, index, content, citations=citations, raw=raw)  # type: ignore[arg-type]


def _read_text(answer: Answer, block: dict[str, Any], index: int) -> None:
    content = block.get("text")
    before = answer.pieces[-1] if answer.pieces else None
    if content is None and items(block.get("citations")) and before and before.content is not None:
        # LangChain puts the citations of a streamed text into a separate block after it.
        told = [read_citation(each, before.content) for each in block["citations"]]
        before.citations += tuple(each for each in told if each is not None)
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
        piece = said(answer.role, content, index, citations=tuple(citations), raw=block)
        answer.pieces.append(piece)


def _read_thought(answer: Answer, block: dict[str, Any], index: int) -> None:
    if block["type"] == "redacted_thinking":
        answer.pieces.append(AnswerPiece("thinking", index, raw=block))
        return
    content = block.get("thinking")
    for name in ("reasoning", "reasoning_content", "text"):
        content = block.get(name) if content is None else content
    if isinstance(content, dict):  # Bedrock: {"reasoning_content": {"text": …}}
        content = content.get("text")
    if content is None:
        content = _summary(block)
    if content is None or isinstance(content, str):
        # A block with only a signature, or with reasoning that the provider encrypts.
        if content or block.get("encrypted_content"):
            answer.pieces.append(AnswerPiece("thinking", index, content or None, raw=block))
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
    given = block.get("input")
    for key in ("args", "arguments"):
        given = block.get(key) if given is None else given
    own = text(block.get("id"))
    identity = text(block.get("call_id")) or own
    add_request(
        answer,
        index,
        identity=identity,
        provider_id=own if own != identity else None,
        name=name,
        arguments=given,
        raw=block,
        at_provider=at_provider,
        partial=text(block.get("partial_json")),
    )


def add_request(
    answer: Answer,
    index: int,
    *,
    identity: str | None,
    name: str,
    arguments: Any,
    raw: Any,
    at_provider: bool = False,
    partial: str | None = None,
    provider_id: str | None = None,
) -> None:
    """Add a tool request; invalid arguments are kept as text and reported."""
    parsed, kept = json_object(partial if not arguments and partial else arguments)
    if kept is not None:
        message = f"the arguments of {name[:80]!r} are no JSON object"
        answer.report("malformed_tool_arguments", message, index, kept)
    call = ToolCall(
        id=identity or "",
        name=name,
        arguments=parsed,
        arguments_text=kept,
        runs_at_provider=at_provider,
        provider_id=provider_id,
    )
    answer.pieces.append(AnswerPiece("tool_request", index, tool_call=call, raw=raw))


def read_result(answer: Answer, block: dict[str, Any], index: int, *, at_provider: bool) -> None:
    """Add a tool result from a block of a message."""
    content = block.get("content")
    for key in ("output", "response"):
        content = block.get(key) if content is None else content
    failed = (
        block.get("is_error") is True
        or block.get("status") == "error"
        or str(mapping(content).get("type", "")).endswith("_error")
    )
    flat = plain_text(content)
    shown = content if flat is None else flat
    error = None
    if failed:
        error = flat or text(mapping(content).get("error_code")) or "failed"
    identity = next(
        (
            found
            for key in ("tool_use_id", "tool_call_id", "call_id", "id")
            if (found := text(block.get(key))) is not None
        ),
        "",
    )
    result = ToolResult(
        call_id=identity,
        name=text(block.get("name")),
        content=shown,
        success=not failed,
        error=error,
        runs_at_provider=at_provider,
    )
    answer.pieces.append(AnswerPiece("tool_response", index, flat, tool_result=result, raw=block))
