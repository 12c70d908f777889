"""The last question and the last answer in a value of any form."""

from collections.abc import Sequence
from typing import Any, Final

from tracereel.content.messages import messages_of
from tracereel.content.model import Message
from tracereel.content.reading import first, items, mapping, parsed, text

_ASKED: Final = (
    *("question", "user_prompt", "prompt", "query", "user_input", "user_message", "message"),
    *("text", "request", "task", "topic", "instruction", "goal", "input", "content"),
)
"""Fields that hold a question, the surest first."""
_ANSWERED: Final = (
    *("answer", "final_answer", "final_output", "final_response", "response", "reply", "output"),
    *("result", "completion", "text", "message", "summary", "content", "return_value"),
)
_STATES: Final = ("messages", "contents", "history", "chat_history", "choices", "candidates")
_LEVELS: Final = 6
_SENTENCE: Final = 3
"""Words of a text that is more than a name or a date."""


def asked(value: Any) -> str | None:
    """Return the last question in an input: the last user text, the prompt, or the text itself."""
    return _found(parsed(value), "user", _ASKED)


def answered(value: Any) -> str | None:
    """Return the last answer in an output: the last assistant text, or the text itself."""
    return _found(parsed(value), "assistant", _ANSWERED)


def text_of(message: Message) -> str:
    """Return the texts of a message, one after the other."""
    texts = [part.text for part in message.parts if part.type in ("text", "refusal") and part.text]
    return "\n".join(texts)


def _found(value: Any, role: str, names: Sequence[str]) -> str | None:
    said = _marked(value, role, names, _LEVELS)
    return said if said is not None else _obvious(value, _LEVELS)


def _marked(value: Any, role: str, names: Sequence[str], depth: int) -> str | None:
    """Return a text that messages or the name of a field mark as the question or answer."""
    if isinstance(value, str):
        return text(value) if value.strip() else None
    if depth <= 0 or value is None:
        return None
    if isinstance(value, list | tuple):
        return _in_list(items(value), role, names, depth)
    fields = mapping(value)
    if any(items(fields.get(name)) for name in _STATES):
        said = _last(messages_of(fields), role)
        if said is not None:
            return said
    if isinstance(first(fields, "role", "type"), str) or "kwargs" in fields:
        said = _last(messages_of(fields, role=role), role)
        if said is not None:
            return said
    for name in names:
        if name in fields:
            said = _marked(parsed(fields[name]), role, names, depth - 1)
            if said is not None:
                return said
    # The state of a graph by node, and arguments that hold it: the last one that has a text.
    for each in reversed(list(fields.values())[:100]):
        inner = parsed(each)
        if not isinstance(inner, str):
            said = _marked(inner, role, names, depth - 1)
            if said is not None:
                return said
    return None


def _obvious(value: Any, depth: int) -> str | None:
    """Return the only text of an object that could be meant: its one sentence or one field."""
    fields = mapping(value)
    texts = [each for each in fields.values() if isinstance(each, str) and each.strip()]
    sentences = [each for each in texts if len(each[:1000].split()) >= _SENTENCE]
    if len(sentences) == 1:
        return text(sentences[0])
    if len(fields) == 1 and depth > 0:
        (only,) = fields.values()
        return text(only) if texts else _obvious(parsed(only), depth - 1)
    return None


def _in_list(values: list[Any], role: str, names: Sequence[str], depth: int) -> str | None:
    if all(isinstance(each, str) for each in values):  # names, lines …: not a conversation
        return text(values[0]) if len(values) == 1 and values[0].strip() else None
    said = _last(messages_of(values, role=role), role)
    if said is not None:
        return said
    for each in reversed(values[-20:]):
        if not isinstance(each, str):
            said = _marked(each, role, names, depth - 1)
            if said is not None:
                return said
    return None


def _last(messages: Sequence[Message], role: str) -> str | None:
    for message in reversed(messages):
        if message.role == role and (said := text_of(message)).strip():
            return said
    return None
