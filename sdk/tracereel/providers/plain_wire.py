"""The plainest answers as they come over the wire: one text and its tokens, read by their types.

A shape that is not foreseen here in every field is no error: it is left to `tracereel.providers.plain`
and the readers behind it, which would say the same of what is read here, in many more steps.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta, Raw, Struct

from tracereel.providers import usage as usages
from tracereel.providers.base import StopReason, Usage, event_id
from tracereel.providers.plain import ENDS
from tracereel.providers.stop_reasons import STOP_REASONS

Count = Annotated[int, Meta(ge=0, le=2**53)] | None
Text = Annotated[str, Meta(min_length=1)]
Word = str | None
Empty = Annotated[list[Any], Meta(max_length=0)] | None
Absent = Literal["\0"]
"""The type of a field that is not to be there: what comes over the wire is never this."""
_ABSENT: Final = "\0"
_Decode = Callable[[bytes | str], Any]


class PlainWire(NamedTuple):
    """What a plain answer says."""

    content: str
    model: str | None
    message_id: str | None
    stop_reason: StopReason | None
    stop_reason_raw: str | None
    usage: Usage | None
    said: bytes
    """The messages of the answer, as JSON."""
    inner_id: str
    """An id within them; else empty."""

    @property
    def event_id(self) -> str:
        """That of its only event."""
        return event_id((None, self.message_id, 0, "assistant_message", self.content))


def read(dialect: str, body: bytes | str) -> PlainWire | None:
    """The answer in a body, if it is a plain one; else null."""
    try:
        return _READERS[dialect](body)
    except (KeyError, msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _absent(*names: str) -> list[tuple[str, Any, Any]]:
    return [(name, Absent, _ABSENT) for name in names]


def _counts(name: str, *counts: str, **details: type) -> Any:
    """A usage object with these counts, and none of the others that would mean something."""
    known = {*counts, *details}
    others = [each for each in (*usages.MEANINGS, *usages.DETAILS, "cost") if each not in known]
    fields: list[Any] = [(each, Count, None) for each in counts]
    fields += [(each, kind | None, None) for each, kind in details.items()]
    return msgspec.defstruct(name, [*fields, *_absent(*others)], gc=False)


_CachedPart: Final = msgspec.defstruct(
    "CachedPart",
    [
        ("cached_tokens", Count, None),
        *_absent("cache_read", "cache_creation", "cache_write_tokens"),
    ],
    gc=False,
)
_ThoughtPart: Final = msgspec.defstruct(
    "ThoughtPart",
    [("reasoning_tokens", Count, None), *_absent("reasoning", "thinking_tokens")],
    gc=False,
)
_AnthropicUsage: Final = _counts(
    "AnthropicUsage",
    *("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
)
_ChatUsage: Final = _counts(
    "ChatUsage",
    *("prompt_tokens", "completion_tokens"),
    prompt_tokens_details=_CachedPart,
    completion_tokens_details=_ThoughtPart,
)
_ResponsesUsage: Final = _counts(
    "ResponsesUsage",
    *("input_tokens", "output_tokens"),
    input_tokens_details=_CachedPart,
    output_tokens_details=_ThoughtPart,
)
_GoogleUsage: Final = _counts(
    "GoogleUsage",
    *("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount"),
    *("thoughtsTokenCount", "toolUsePromptTokenCount"),
)


def _answer(name: str, *fields: Any, usage: tuple[str, Any], absent: tuple[str, ...]) -> Any:
    """An answer with these fields, its usage in this place and in no other."""
    places = {place[0] for place in usages.PLACES} - {usage[0]}
    kinds = [*fields, (usage[0], usage[1] | None, None)]
    return msgspec.defstruct(name, [*kinds, *_absent(*places, *absent)], gc=False)


_ELSEWHERE: Final = ("candidates", "promptFeedback", "prompt_feedback", "responseId", "messages")
_words: Final = [("id", Word, None), ("model", Word, None)]


class _Block(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["text"]
    text: Text
    citations: Empty = None
    annotations: Empty = None
    logprobs: Empty = None


_anthropic: Final[_Decode] = msgspec.json.Decoder(
    _answer(
        "Anthropic",
        ("type", Literal["message"]),
        ("content", Raw),
        *_words,
        ("stop_reason", Word, None),
        ("error", None, None),
        ("stop_details", None, None),
        usage=("usage", _AnthropicUsage),
        absent=(*_ELSEWHERE, "choices", "object", "output"),
    )
).decode
_blocks: Final = msgspec.json.Decoder(tuple[_Block]).decode


def _read_anthropic(body: bytes | str) -> PlainWire | None:
    found = _anthropic(body)
    content = found.content
    (block,) = _blocks(content)
    said, used, usage = b'[{"role":"assistant","content":%b}]' % bytes(content), found.usage, None
    if used is not None:
        read, wrote = used.cache_read_input_tokens, used.cache_creation_input_tokens
        usage = _usage(used.input_tokens, used.output_tokens, read, wrote, beside=True)
    return _told("anthropic", block.text, found.id, found.model, found.stop_reason, usage, said)


class _ChatMessage(Struct, forbid_unknown_fields=True, gc=False):
    content: Text
    role: Literal["assistant"] | None = None
    refusal: None = None
    annotations: Empty = None
    audio: None = None
    function_call: None = None
    tool_calls: Empty = None


class _Choice(Struct, forbid_unknown_fields=True, gc=False):
    message: Raw
    finish_reason: Word = None
    index: Any = None
    logprobs: Any = None


_chat: Final[_Decode] = msgspec.json.Decoder(
    _answer(
        "Chat",
        ("choices", tuple[_Choice]),
        *_words,
        usage=("usage", _ChatUsage),
        absent=_ELSEWHERE,
    )
).decode
_message: Final = msgspec.json.Decoder(_ChatMessage).decode


def _read_chat(body: bytes | str) -> PlainWire | None:
    found = _chat(body)
    (choice,) = found.choices
    message, used, usage = choice.message, found.usage, None
    content = _message(message).content
    if used is not None:
        details, thoughts = used.prompt_tokens_details, used.completion_tokens_details
        usage = _usage(
            used.prompt_tokens,
            used.completion_tokens,
            None if details is None else details.cached_tokens,
            thoughts=None if thoughts is None else thoughts.reasoning_tokens,
        )
    said = b"[%b]" % bytes(message)
    return _told("openai", content, found.id, found.model, choice.finish_reason, usage, said)


class _OutputText(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["output_text"]
    text: Text
    citations: Empty = None
    annotations: Empty = None
    logprobs: Empty = None


class _OutputMessage(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["message"]
    content: tuple[_OutputText]
    id: str = ""
    role: Literal["assistant"] | None = None
    status: Literal["completed"] | None = None


_response: Final[_Decode] = msgspec.json.Decoder(
    _answer(
        "Response",
        ("object", Literal["response"]),
        ("status", Literal["completed"]),
        ("output", Raw),
        *_words,
        ("error", None, None),
        ("incomplete_details", None, None),
        usage=("usage", _ResponsesUsage),
        absent=(*_ELSEWHERE, "choices"),
    )
).decode
_output: Final = msgspec.json.Decoder(tuple[_OutputMessage]).decode


def _read_response(body: bytes | str) -> PlainWire | None:
    found = _response(body)
    said, used, usage = bytes(found.output), found.usage, None
    (message,) = _output(said)
    if used is not None:
        details, thoughts = used.input_tokens_details, used.output_tokens_details
        usage = _usage(
            used.input_tokens,
            used.output_tokens,
            None if details is None else details.cached_tokens,
            thoughts=None if thoughts is None else thoughts.reasoning_tokens,
        )
    text, word = message.content[0].text, "completed"
    return _told("openai", text, found.id, found.model, word, usage, said, message.id)


class _Part(Struct, forbid_unknown_fields=True, gc=False):
    text: Text


class _Content(Struct, forbid_unknown_fields=True, gc=False):
    parts: tuple[_Part]
    role: Literal["model"] | None = None


class _Candidate(Struct, forbid_unknown_fields=True, gc=False):
    content: Raw
    finishReason: Word = None  # noqa: N815 - Google's names
    index: Any = None
    avgLogprobs: Any = None  # noqa: N815
    tokenCount: Any = None  # noqa: N815


_google: Final[_Decode] = msgspec.json.Decoder(
    _answer(
        "Google",
        ("candidates", tuple[_Candidate]),
        ("modelVersion", str),
        ("responseId", str),
        usage=("usageMetadata", _GoogleUsage),
        absent=("id", "messages"),
    )
).decode
_content: Final = msgspec.json.Decoder(_Content).decode


def _read_google(body: bytes | str) -> PlainWire | None:
    found = _google(body)
    (candidate,) = found.candidates
    content, used, usage = candidate.content, found.usageMetadata, None
    text = _content(content).parts[0].text
    if used is not None:
        thoughts, asked = used.thoughtsTokenCount, used.promptTokenCount
        tools, within = used.toolUsePromptTokenCount or 0, used.cachedContentTokenCount
        answered = used.candidatesTokenCount
        if asked is not None or answered is not None or thoughts is not None:
            usage = Usage(
                input_tokens=(asked or 0) + tools,
                output_tokens=(answered or 0) + (thoughts or 0),
                cached_tokens=within,
                reasoning_tokens=thoughts,
            )
    said, word = b"[%b]" % bytes(content), candidate.finishReason
    return _told("google", text, found.responseId, found.modelVersion, word, usage, said)


def _usage(
    asked: int | None,
    answered: int | None,
    read: int | None = None,
    wrote: int | None = None,
    *,
    thoughts: int | None = None,
    beside: bool = False,
) -> Usage | None:
    """Counts as usage; `beside` where cached tokens are counted beside the others, not in them."""
    if asked is None and answered is None and (not beside or (read is None and wrote is None)):
        return None
    return Usage(
        input_tokens=(asked or 0) + ((read or 0) + (wrote or 0) if beside else 0),
        output_tokens=answered or 0,
        cached_tokens=read,
        cache_creation_tokens=wrote,
        reasoning_tokens=thoughts,
    )


def _told(
    provider: str,
    content: str,
    identity: str | None,
    model: str | None,
    word: str | None,
    usage: Usage | None,
    said: bytes,
    inner_id: str = "",
) -> PlainWire | None:
    stop: StopReason | None = None
    if word:
        stop = STOP_REASONS[provider][word]  # an unknown word is left to others
        if stop not in ENDS:
            return None
    if said.find(b"\n") >= 0:
        said = msgspec.json.format(said, indent=-1)
    return PlainWire(
        content, model or None, identity or None, stop, word or None, usage, said, inner_id
    )


_READERS: Final[dict[str, Callable[[bytes | str], PlainWire | None]]] = {
    "anthropic": _read_anthropic,
    "chat": _read_chat,
    "responses": _read_response,
    "google": _read_google,
}
