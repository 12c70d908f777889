"""Request and response formats of each provider: messages, output and tool results."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Final

from tracereel.integrations._decisions import answers_of
from tracereel.providers.reading import get, items, mapping, text

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """Tool result in a request to a model."""

    call_id: str | None
    name: str | None
    content: Any
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of request and its response."""

    provider: str
    """Provider name for the normalizer."""
    operation: str
    messages: Callable[[Body], Any]
    """Returns the input messages."""
    output_messages: Callable[[dict[str, Any]], list[Any]] = lambda _answer: []
    """Returns the messages of a response."""
    results: Callable[[Body], Iterator[Result]] = lambda _body: iter(())
    """Yields tool results since the last message of the model."""
    is_conversation: bool = True
    """Whether the response contains messages to normalize."""
    has_decisions: bool = False
    """Whether the response answers questions with probabilities."""
    asked_in: str = "messages"
    """Request field with the input messages."""

    def brings_results(self, body: Body) -> bool:
        """Return whether a request may contain tool results.

        It contains none if its last message is a user's text that is alone or follows a message of
        the model.
        """
        asked = body.get(self.asked_in)
        if type(asked) is not list or not asked or type(last := asked[-1]) is not dict:
            return type(asked) is not str
        if last.get("role") != "user" or type(last.get("content")) is not str:
            return True
        return len(asked) > 1 and not _is_assistant(asked[-2])


def _system_first(body: Body, system: str, messages: str) -> Any:
    asked, instructions = body.get(messages), body.get(system)
    if not instructions:
        return asked
    first = {"role": "system", "content": instructions}
    return [first, *asked] if isinstance(asked, (list, tuple)) else [first, asked]


def _after_last_response(messages: Any, is_response: Callable[[Any], bool]) -> list[Any]:
    """Return the messages after the model's last one, in order."""
    if not isinstance(messages, (list, tuple)):
        return []
    return list(takewhile(lambda message: not is_response(message), reversed(messages)))[::-1]


def _is_assistant(message: Any) -> bool:
    role = message.get("role") if type(message) is dict else get(message, "role")
    return role == "assistant" or role == "model"


def _anthropic_results(body: Body) -> Iterator[Result]:
    for message in _after_last_response(body.get("messages"), _is_assistant):
        content = message.get("content") if type(message) is dict else get(message, "content")
        if type(content) is str:
            continue
        for block in content if isinstance(content, (list, tuple)) else ():
            if get(block, "type") == "tool_result":
                call_id = text(get(block, "tool_use_id"))
                failed = get(block, "is_error") is True
                yield Result(call_id, None, get(block, "content"), failed)


def _chat_results(body: Body) -> Iterator[Result]:
    for message in _after_last_response(body.get("messages"), _is_assistant):
        if get(message, "role") in ("tool", "function"):
            call_id, name = text(get(message, "tool_call_id")), text(get(message, "name"))
            yield Result(call_id, name, get(message, "content"))


def _responses_results(body: Body) -> Iterator[Result]:
    def is_response(item: Any) -> bool:
        # The model's items precede the results in the input, in any order.
        return get(item, "type") in ("message", "reasoning") or _is_assistant(item)

    for item in _after_last_response(body.get("input"), is_response):
        if get(item, "type") in ("function_call_output", "custom_tool_call_output"):
            yield Result(text(get(item, "call_id")), None, get(item, "output"))


def _google_results(body: Body) -> Iterator[Result]:
    for content in _after_last_response(body.get("contents"), _is_assistant):
        parts = get(content, "parts")
        for part in parts if isinstance(parts, (list, tuple)) else ():
            answer = get(part, "functionResponse", "function_response")
            if answer is not None:
                response = get(answer, "response")
                failed = get(response, "error") is not None
                yield Result(text(get(answer, "id")), text(get(answer, "name")), response, failed)


def _choices(answer: dict[str, Any]) -> list[Any]:
    found = [mapping(choice) for choice in items(answer.get("choices"))]
    return [choice.get("message") or choice.get("text") for choice in found]


ANTHROPIC: Final = Dialect(
    provider="anthropic",
    operation="chat",
    messages=lambda body: _system_first(body, "system", "messages"),
    output_messages=lambda answer: [{"role": "assistant", "content": answer.get("content")}],
    results=_anthropic_results,
)
CHAT: Final = Dialect(
    provider="openai",
    operation="chat",
    messages=lambda body: body.get("messages"),
    output_messages=_choices,
    results=_chat_results,
)
RESPONSES: Final = Dialect(
    provider="openai",
    operation="chat",
    messages=lambda body: _system_first(body, "instructions", "input"),
    output_messages=lambda answer: items(answer.get("output")),
    results=_responses_results,
    asked_in="input",
)
COMPLETIONS: Final = Dialect(
    provider="openai",
    operation="text_completion",
    messages=lambda body: body.get("prompt"),
    output_messages=_choices,
    is_conversation=False,
)
EMBEDDINGS: Final = Dialect(
    provider="openai",
    operation="embeddings",
    messages=lambda body: body.get("input"),
    is_conversation=False,
)
DECISIONS: Final = Dialect(
    provider="openai",
    operation="decisions",
    messages=lambda body: body.get("input"),
    output_messages=answers_of,
    is_conversation=False,
    has_decisions=True,
)
GOOGLE_DECISIONS: Final = replace(DECISIONS, provider="google")
GOOGLE: Final = Dialect(
    provider="google",
    operation="generate_content",
    messages=lambda body: _system_first(body, "systemInstruction", "contents"),
    output_messages=lambda answer: [
        mapping(each).get("content") for each in items(answer.get("candidates"))
    ],
    results=_google_results,
    asked_in="contents",
)
GOOGLE_EMBEDDINGS: Final = Dialect(
    provider="google",
    operation="embeddings",
    messages=lambda body: body.get("content") or body.get("requests") or body.get("instances"),
    is_conversation=False,
)
LANGCHAIN: Final = Dialect(
    provider="langchain",
    operation="chat",
    messages=lambda body: body.get("messages"),
    output_messages=lambda answer: items(answer.get("messages")),
)
