"""Azure OpenAI: OpenAI's shapes under another name, with the verdicts of its content filters."""

from typing import Any

from tracereel.providers import openai, openai_responses
from tracereel.providers.answers import Answer


def read(response: dict[str, Any], provider: str = "azure_openai") -> list[Answer]:
    """The answers in a response of either API."""
    if "choices" in response or "output" not in response:
        return openai.read(response, provider)
    return openai_responses.read(response, provider)
