"""The plainest answers, one text and nothing else, told in one step: nearly all answers are these.

Whatever has more in it (tools, thoughts, citations, refusals, several answers) is left to the readers
of each provider; of what is read here they would say the same, in some ten times as many steps.
"""

from typing import Any, Final, NamedTuple

from tracereel.providers.base import UNKNOWN_MODEL, Normalized, NormalizedEvent
from tracereel.providers.stop_reasons import canonical_stop_reason
from tracereel.providers.usage import usage_of

ENDS: Final = (None, "success", "max_tokens")
"""Ends of which nothing is told beside the text."""
_WORDS: Final = frozenset({str, type(None)})
_GOOGLE: Final = frozenset({"content", "finishReason", "index", "avgLogprobs", "tokenCount"})
_CHAT: Final = frozenset({"index", "message", "finish_reason", "logprobs"})
_CHAT_MESSAGE: Final = frozenset({"role", "content"})
_PARTS: Final = frozenset({"text", "thoughtSignature"})
_BLOCK: Final = frozenset({"type", "text", "citations", "annotations", "logprobs"})


class _Text(NamedTuple):
    """What a plain answer says."""

    provider: str
    content: str
    raw: Any
    model: Any
    message_id: Any
    stop_word: Any


def plain_answer(
    data: dict[str, Any],
    *,
    provider: str | None,
    default_model: str | None,
    session_id: str | None,
    keep_raw: bool,
) -> Normalized | None:
    """The turn that an answer is, if it is a plain one; else null."""
    found = _read(data)
    if found is None or not found.content or not _WORDS.issuperset(map(type, found[3:])):
        return None
    speaker, stop_word = provider or found.provider, found.stop_word or None
    stop, unknown = canonical_stop_reason(stop_word, speaker)
    if unknown is not None or stop not in ENDS:
        return None
    model, usage = found.model or default_model or UNKNOWN_MODEL, usage_of(data)
    event = NormalizedEvent(
        type="assistant_message",
        original_index=0,
        provider=speaker,
        model=model,
        session_id=session_id,
        message_id=found.message_id or None,
        message_index=0,
        block_index=0,
        content=found.content,
        usage=usage,
        stop_reason=stop,
        stop_reason_raw=stop_word,
        raw=found.raw if keep_raw else None,
    )
    return Normalized(
        events=(event,),
        provider=speaker,
        model=model,
        usage=usage,
        stop_reason=stop,
        stop_reason_raw=stop_word,
        problems=(),
    )


def _read(data: dict[str, Any]) -> _Text | None:
    """The shapes are told apart as those of other answers are, in the same order."""
    if "candidates" in data:
        return _read_google(data)
    if "promptFeedback" in data or "prompt_feedback" in data or "usageMetadata" in data:
        return None
    if "choices" in data:
        return _read_chat(data)
    if data.get("object") == "response":
        return _read_response(data)
    if data.get("type") == "message" and not isinstance(data.get("output"), list):
        return _read_anthropic(data)
    return None


def _read_google(data: dict[str, Any]) -> _Text | None:
    candidate = _only(data["candidates"])
    if candidate is None or not _GOOGLE.issuperset(candidate):
        return None
    content = candidate.get("content")
    part = _only(content.get("parts")) if type(content) is dict else None
    if part is None or not _PARTS.issuperset(part) or type(said := part.get("text")) is not str:
        return None
    model, identity = data.get("modelVersion"), data.get("responseId")
    if model is None or identity is None:  # the client's objects have other names for both
        return None
    return _Text("google", said, part, model, identity, candidate.get("finishReason"))


def _read_chat(data: dict[str, Any]) -> _Text | None:
    choice = _only(data["choices"])
    if choice is None or not _CHAT.issuperset(choice):
        return None
    message = choice.get("message")
    if type(message) is not dict or type(said := message.get("content")) is not str:
        return None
    for name, value in message.items():
        if value and name not in _CHAT_MESSAGE:
            return None
    identity = data.get("id")
    return _Text("openai", said, said, data.get("model"), identity, choice.get("finish_reason"))


def _read_response(data: dict[str, Any]) -> _Text | None:
    item = _only(data.get("output"))
    if item is None or item.get("type") != "message" or data.get("status") != "completed":
        return None
    part = _text_block(item.get("content"), "output_text")
    if part is None or data.get("error") is not None or data.get("incomplete_details"):
        return None
    return _Text("openai", part["text"], part, data.get("model"), data.get("id"), "completed")


def _read_anthropic(data: dict[str, Any]) -> _Text | None:
    block = _text_block(data.get("content"), "text")
    if block is None or data.get("error") is not None or data.get("stop_details"):
        return None
    identity, stop_word = data.get("id"), data.get("stop_reason")
    return _Text("anthropic", block["text"], block, data.get("model"), identity, stop_word)


def _text_block(content: Any, kind: str) -> dict[str, Any] | None:
    """The only block of some content, if it is a text without citations."""
    block = _only(content)
    if (
        block is None
        or block.get("type") != kind
        or type(block.get("text")) is not str
        or block.get("citations")
        or block.get("annotations")
        or not _BLOCK.issuperset(block)
    ):
        return None
    return block


def _only(values: Any) -> dict[str, Any] | None:
    if type(values) is list and len(values) == 1 and type(values[0]) is dict:
        found: dict[str, Any] = values[0]
        return found
    return None
