"""Detection of a result's provider format by its keys."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tracereel.providers import anthropic, azure_openai, google, openai, openai_responses
from tracereel.providers.answers import Answer
from tracereel.providers.langchain import read_message, role_of
from tracereel.providers.reading import get, mapping

_GOOGLE: Final = frozenset({"candidates", "promptFeedback", "prompt_feedback", "usageMetadata"})
"""Keys that only Google responses have."""

Reader = Callable[[dict[str, Any]], list[Answer]]


def messages_of(result: Any) -> list[Any] | None:
    """Return the messages of a state or list, or `None` for a response."""
    if isinstance(result, (list, tuple)):
        return list(result)
    if isinstance(result, (str, bytes, BaseException)):
        return None
    found = get(result, "messages")
    return list(found) if isinstance(found, (list, tuple)) else None


def reader_of(data: Any, provider: str | None) -> Reader | None:
    """Return the reader for a response, or `None` if its format is unknown."""
    if not isinstance(data, dict):
        return None
    if not _GOOGLE.isdisjoint(data):
        return partial(google.read, provider=provider or "google")
    if "choices" in data:
        return partial(openai.read, provider=provider or "openai")
    if data.get("object") == "response" or isinstance(data.get("output"), list):
        return partial(openai_responses.read, provider=provider or "openai")
    if data.get("type") == "message" or _is_anthropic_error(data):
        return partial(anthropic.read, provider=provider or "anthropic")
    if role_of(data) is not None:
        return lambda message: [
            read_message(message, None if provider == "langchain" else provider)
        ]
    if "generations" in data:
        return lambda result: _read_generations(result, provider)
    if "error" in data:
        readers: dict[str, Reader] = {
            "anthropic": anthropic.read,
            "azure_openai": azure_openai.read,
            "google": google.read,
        }
        default: Reader = openai.read
        return readers.get(provider or "", default)
    return None


def _is_anthropic_error(data: dict[str, Any]) -> bool:
    return data.get("type") == "error" and isinstance(data.get("error"), dict)


def _read_generations(result: dict[str, Any], provider: str | None) -> list[Answer]:
    """Read LangChain's LLMResult: lists of generations, each with a message."""
    answers: list[Answer] = []
    for generation in _flat(result.get("generations")):
        message = mapping(generation).get("message")
        if message is None:
            message = {"type": "ai", "content": mapping(generation).get("text")}
        read = read_message(message, None if provider == "langchain" else provider)
        read.candidate_index = len(answers)
        answers.append(read)
    return answers


def _flat(value: Any) -> list[Any]:
    if not isinstance(value, list):
        return []
    return [each for part in value for each in (part if isinstance(part, list) else [part])]
