"""How each provider's requests and answers are read: what was asked, what was said, tools' results."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from tracereel import _written
from tracereel.providers.reading import get, items, mapping, text

Body = Mapping[str, Any]
MAX_WIRE_BYTES: Final = 65_536
MIN_WIRE_BYTES: Final = 2_000
"""Bodies of requests that are looked at as they were sent; others are read from what the client has,
smaller ones because that is quicker."""


class _Asked(msgspec.Struct):
    """What was asked, as it went over the wire."""

    messages: Raw = Raw()
    system: Raw = Raw()


class _Turn(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What one side said, in the plainest form."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str


_turns: Final = msgspec.json.Decoder(list[_Turn]).decode
_QUOTES: Final = 8
"""Around two keys and two values."""


def _wire(messages: str, system: str) -> "msgspec.json.Decoder[_Asked]":
    """Reads the body of a request in which the two have these names."""
    kind = msgspec.defstruct(
        "_Asked", [], bases=(_Asked,), rename={"messages": messages, "system": system}
    )
    return msgspec.json.Decoder(kind)


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool answered, as a request hands it to the model."""

    call_id: str | None
    name: str | None
    content: Any
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of request and its answer."""

    provider: str
    """Whose answers these are, for the normaliser."""
    operation: str
    messages: Callable[[Body], Any]
    """What was asked."""
    said: Callable[[dict[str, Any]], list[Any]]
    """The messages of an answer."""
    results: Callable[[Body], Iterator[Result]]
    """What tools have answered since the model spoke last."""
    is_conversation: bool = True
    """False where the answer has no messages to normalise."""
    wire: "msgspec.json.Decoder[_Asked] | None" = None
    """Finds what was asked in the body of a request."""
    asked_in: str = "messages"
    """Where a request has what was asked."""
    plain: str | None = None
    """How `tracereel.providers.plain_wire` calls answers of this kind."""

    def asked_plainly(self, body: bytes | None) -> tuple[Raw, list[str], Sequence[str]] | None:
        """A little that was asked, as it was sent: its JSON, the texts in it, and its keys; else null."""
        if body is None or self.wire is None or len(body) > MIN_WIRE_BYTES:
            return None
        # Escapes hide what is said, and an event is one line.
        if _BACKSLASH in body or _NEWLINE in body:
            return None
        try:
            asked = self.wire.decode(body)
            if bytes(asked.system):
                return None
            messages = bytes(asked.messages)
            try:
                turns = _turns(messages)
            except msgspec.ValidationError:
                text = messages.decode()
            else:
                # A key that is there twice would hide what its first value says.
                if turns and messages.count(b'"') == _QUOTES * len(turns):
                    return asked.messages, [turn.content for turn in turns], ()
                text = messages.decode()
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return None
        # As many opening brackets as that are certainly not nested too deep.
        if text[:2] != "[{" or text.count("{") > 6 or text.count("[") > 6:
            return None
        return asked.messages, [text], _keys(text)

    def brings_results(self, body: Body) -> bool:
        """Whether a request may have results of tools in it; false where a person's words are its end."""
        asked = body.get(self.asked_in)
        if type(asked) is not list or not asked or type(last := asked[-1]) is not dict:
            return type(asked) is not str
        if last.get("role") != "user" or type(last.get("content")) is not str:
            return True
        return len(asked) > 1 and not _assistant_speaks(asked[-2])

    def written(self, body: bytes) -> _written.Written | None:
        """What was asked, as it was sent; null where it is no list, or more than an event may have."""
        if self.wire is None or not MIN_WIRE_BYTES <= len(body) <= MAX_WIRE_BYTES:
            return None
        try:
            asked = self.wire.decode(body)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return None
        messages, system = bytes(asked.messages), bytes(asked.system)
        if not messages.startswith((b"[{", b'["')):
            return None
        if system not in _NO_SYSTEM:
            messages = b'[{"role":"system","content":%b},%b' % (system, messages[1:])
        return _written.taken(messages)


_BACKSLASH, _NEWLINE = b"\\\n"
"""As numbers: to look for bytes in bytes by `in`, Python raises an error and clears it again."""
_keys: Final = re.compile(r'"([^"]*)"\s*:').findall
_NO_SYSTEM: Final = (b"", b"null", b'""', b"[]", b"{}")


def _system_first(body: Body, system: str, messages: str) -> Any:
    asked, instructions = body.get(messages), body.get(system)
    if not instructions:
        return asked
    first = {"role": "system", "content": instructions}
    return [first, *asked] if isinstance(asked, (list, tuple)) else [first, asked]


def _since_the_model_spoke(messages: Any, speaks: Callable[[Any], bool]) -> list[Any]:
    """The last messages, up to the model's own, in order."""
    if not isinstance(messages, (list, tuple)):
        return []
    last: list[Any] = []
    for message in reversed(messages):
        if speaks(message):
            break
        last.append(message)
    last.reverse()
    return last


def _assistant_speaks(message: Any) -> bool:
    role = message.get("role") if type(message) is dict else get(message, "role")
    return role == "assistant" or role == "model"


def _anthropic_results(body: Body) -> Iterator[Result]:
    for message in _since_the_model_spoke(body.get("messages"), _assistant_speaks):
        content = message.get("content") if type(message) is dict else get(message, "content")
        if type(content) is str:
            continue
        for block in content if isinstance(content, (list, tuple)) else ():
            if get(block, "type") == "tool_result":
                call_id = text(get(block, "tool_use_id"))
                failed = get(block, "is_error") is True
                yield Result(call_id, None, get(block, "content"), failed)


def _chat_results(body: Body) -> Iterator[Result]:
    for message in _since_the_model_spoke(body.get("messages"), _assistant_speaks):
        if get(message, "role") in ("tool", "function"):
            call_id, name = text(get(message, "tool_call_id")), text(get(message, "name"))
            yield Result(call_id, name, get(message, "content"))


def _responses_results(body: Body) -> Iterator[Result]:
    def speaks(item: Any) -> bool:
        # The model's own items stand among the input, in any order before the results.
        return get(item, "type") in ("message", "reasoning") or _assistant_speaks(item)

    for item in _since_the_model_spoke(body.get("input"), speaks):
        if get(item, "type") in ("function_call_output", "custom_tool_call_output"):
            yield Result(text(get(item, "call_id")), None, get(item, "output"))


def _google_results(body: Body) -> Iterator[Result]:
    for content in _since_the_model_spoke(body.get("contents"), _assistant_speaks):
        parts = get(content, "parts")
        for part in parts if isinstance(parts, (list, tuple)) else ():
            answer = get(part, "functionResponse", "function_response")
            if answer is not None:
                response = get(answer, "response")
                failed = get(response, "error") is not None
                yield Result(text(get(answer, "id")), text(get(answer, "name")), response, failed)


def _nothing(_body: Body) -> Iterator[Result]:
    return iter(())


def _choices(answer: dict[str, Any]) -> list[Any]:
    found = [mapping(choice) for choice in items(answer.get("choices"))]
    return [choice.get("message") or choice.get("text") for choice in found]


ANTHROPIC: Final = Dialect(
    provider="anthropic",
    operation="chat",
    messages=lambda body: _system_first(body, "system", "messages"),
    said=lambda answer: [{"role": "assistant", "content": answer.get("content")}],
    results=_anthropic_results,
    wire=_wire("messages", "system"),
    plain="anthropic",
)
CHAT: Final = Dialect(
    provider="openai",
    operation="chat",
    messages=lambda body: body.get("messages"),
    said=_choices,
    results=_chat_results,
    wire=_wire("messages", "-"),
    plain="chat",
)
RESPONSES: Final = Dialect(
    provider="openai",
    operation="chat",
    messages=lambda body: _system_first(body, "instructions", "input"),
    said=lambda answer: items(answer.get("output")),
    results=_responses_results,
    wire=_wire("input", "instructions"),
    asked_in="input",
    plain="responses",
)
COMPLETIONS: Final = Dialect(
    provider="openai",
    operation="text_completion",
    messages=lambda body: body.get("prompt"),
    said=_choices,
    results=_nothing,
    is_conversation=False,
)
EMBEDDINGS: Final = Dialect(
    provider="openai",
    operation="embeddings",
    messages=lambda body: body.get("input"),
    said=lambda _answer: [],
    results=_nothing,
    is_conversation=False,
)
GOOGLE: Final = Dialect(
    provider="google",
    operation="generate_content",
    messages=lambda body: _system_first(body, "systemInstruction", "contents"),
    said=lambda answer: [mapping(each).get("content") for each in items(answer.get("candidates"))],
    results=_google_results,
    asked_in="contents",
    plain="google",
)
GOOGLE_EMBEDDINGS: Final = Dialect(
    provider="google",
    operation="embeddings",
    messages=lambda body: body.get("content") or body.get("requests") or body.get("instances"),
    said=lambda _answer: [],
    results=_nothing,
    is_conversation=False,
)
LANGCHAIN: Final = Dialect(
    provider="langchain",
    operation="chat",
    messages=lambda body: body.get("messages"),
    said=lambda answer: items(answer.get("messages")),
    results=_nothing,
)
