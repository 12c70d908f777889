"""Reader of LangChain messages and plain chat messages (`{"role": …}`)."""

from typing import Any, Final

from tracereel.providers.answers import Answer, AnswerPiece
from tracereel.providers.base import ToolCall
from tracereel.providers.blocks import RESULTS, read_block, read_blocks
from tracereel.providers.google import read_part
from tracereel.providers.names import provider_named, provider_of_model
from tracereel.providers.openai_responses import stop_word_of
from tracereel.providers.reading import (
    first_text,
    get,
    items,
    json_object,
    mapping,
    plain_text,
    text,
    word,
)
from tracereel.providers.usage import usage_of

ROLES: Final = {
    "human": "user",
    "humanmessagechunk": "user",
    "user": "user",
    "ai": "assistant",
    "aimessagechunk": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "tool": "tool",
    "toolmessagechunk": "tool",
    "function": "tool",
    "system": "system",
    "systemmessagechunk": "system",
    "developer": "system",
}
"""LangChain message type or chat role, in lower case → canonical role."""
_MODEL_NAMES: Final = ("model_name", "model", "model_id", "model_version", "modelVersion")
_STOP_NAMES: Final = ("stop_reason", "finish_reason", "stopReason", "finishReason", "done_reason")


def role_of(message: dict[str, Any]) -> str | None:
    """Return the role of a message, or `None` if it has none."""
    for name in ("type", "role"):
        found = ROLES.get((word(message.get(name)) or "").lower())
        if found is not None:
            return found
    return None


def read_message(message: Any, provider: str | None = None) -> Answer:
    """Read one message of a state."""
    if not isinstance(message, dict) or (role := role_of(message)) is None:
        answer = Answer("system", provider or "langchain")
        answer.report("malformed_message", "a message does not say who speaks", None, message)
        return answer
    metadata = mapping(message.get("response_metadata"))
    answer = Answer(role, provider or "langchain")
    answer.message_id = text(message.get("id"))
    answer.agent_name = text(message.get("name")) if role == "assistant" else None
    if role == "tool":
        _read_tool_message(answer, message)
    elif role == "user":
        _read_user_message(answer, message)
    elif role == "assistant":
        answer.model = first_text(metadata, *_MODEL_NAMES) or text(message.get("model"))
        answer.provider = provider or _provider_of(metadata, answer.model)
        answer.usage = usage_of(message)
        stop = get(metadata, *_STOP_NAMES) or get(message, *_STOP_NAMES)
        answer.stop_word = word(stop) or stop_word_of(metadata)
        _read_assistant_message(answer, message)
    return answer


def _provider_of(metadata: dict[str, Any], model: str | None) -> str:
    named = first_text(metadata, "model_provider", "ls_provider")
    found = provider_named(named) if named else None
    return found or provider_of_model(model) or "langchain"


def _read_tool_message(answer: Answer, message: dict[str, Any]) -> None:
    content = message.get("content")
    flat = plain_text(content)
    answer.respond(
        0,
        identity=first_text(message, "tool_call_id", "call_id"),
        name=text(message.get("name")),
        content=content if flat is None else flat,
        shown=flat,
        raw=message,
        error=(flat or "failed") if message.get("status") == "error" else None,
    )


def _read_user_message(answer: Answer, message: dict[str, Any]) -> None:
    """Read a user message: one event for its text, one per tool result."""
    content = message.get("content")
    rest = []
    for index, block in enumerate(items(content)):
        if isinstance(block, dict) and block.get("type") in RESULTS:
            read_block(answer, block, index)
        else:
            rest.append(block)
    for index, part in enumerate(items(message.get("parts"))):
        read_part(answer, part, index)
    if rest or not isinstance(content, list):
        shown = plain_text(rest if isinstance(content, list) else content)
        if shown or not answer.pieces:
            answer.say(shown or "", 0, content)


def _read_assistant_message(answer: Answer, message: dict[str, Any]) -> None:
    extra = mapping(message.get("additional_kwargs"))
    thought = text(extra.get("reasoning_content")) or text(message.get("reasoning_content"))
    if thought is not None:
        answer.think(thought, 0, thought)
    read_blocks(answer, message.get("content"))
    for index, part in enumerate(items(message.get("parts"))):
        read_part(answer, part, index)
    answer.refusal = answer.refusal or text(message.get("refusal")) or text(extra.get("refusal"))
    calls = items(message.get("tool_calls")) + items(message.get("invalid_tool_calls"))
    calls = calls or items(extra.get("tool_calls"))
    _merge_calls(answer, [each for each in calls if isinstance(each, dict)])
    for each in calls:
        if not isinstance(each, dict):
            answer.report("malformed_block", "a tool call is no object", None, each)


def _merge_calls(answer: Answer, calls: list[dict[str, Any]]) -> None:
    """Pair LangChain's tool calls with their content blocks, by id, then by name.

    LangChain's id identifies the call, because results refer to it. The provider's id is kept as
    `provider_id`.
    """
    blocks = [p for p in answer.pieces if p.tool_call and not p.tool_call.runs_at_provider]
    left: list[dict[str, Any]] = []
    for call in calls:
        own = text(call.get("id"))
        same = [
            p for p in blocks if p.tool_call and own in (p.tool_call.id, p.tool_call.provider_id)
        ]
        if own is None or not _merge(blocks, same, call):
            left.append(call)
    for call in left:
        function = mapping(call.get("function"))
        name = text(call.get("name")) or text(function.get("name"))
        same = [p for p in blocks if p.tool_call and p.tool_call.name == name]
        if _merge(blocks, same, call):
            continue
        if name is None:
            answer.report("malformed_block", "a tool call names no tool", None, call)
            continue
        given = get(call, "args")
        answer.request(
            max((piece.block_index for piece in answer.pieces), default=-1) + 1,
            identity=text(call.get("id")),
            name=name,
            arguments=function.get("arguments") if given is None else given,
            raw=call,
        )


def _merge(blocks: list[AnswerPiece], same: list[AnswerPiece], call: dict[str, Any]) -> bool:
    """Merge a call into the first block that is the same one; return False without one."""
    block = same[0].tool_call if same else None
    if block is None:
        return False
    arguments, kept = json_object(get(call, "args"))
    identity = text(call.get("id")) or block.id
    beside = block.id if block.id and block.id != identity else block.provider_id
    same[0].tool_call = ToolCall(
        id=identity,
        name=block.name,
        arguments=block.arguments or arguments,
        arguments_text=None if block.arguments or arguments else block.arguments_text or kept,
        provider_id=beside if beside != identity else None,
    )
    blocks.remove(same[0])
    return True
