"""Reader of Anthropic Messages API responses."""

from typing import Any

from tracereel.providers.answers import Answer
from tracereel.providers.blocks import completed, read_blocks
from tracereel.providers.failures import read_failure
from tracereel.providers.reading import mapping, text, word


def read(response: dict[str, Any], provider: str = "anthropic") -> list[Answer]:
    """Read the answer of a Messages API response."""
    answer = Answer("assistant", provider)
    answer.failure = read_failure(response)
    answer.stop_word = word(response.get("stop_reason"))
    answer.refusal = text(mapping(response.get("stop_details")).get("explanation"))
    read_blocks(answer, response.get("content"))
    return completed([answer], response)
