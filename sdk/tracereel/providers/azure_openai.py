"""Reader of Azure OpenAI responses: OpenAI formats with content filter results."""

from typing import Any

from tracereel.providers import openai, openai_responses
from tracereel.providers.answers import Answer


def read(response: dict[str, Any], provider: str = "azure_openai") -> list[Answer]:
    """Read the answers of a chat completion or Responses API response."""
    if "choices" in response or "output" not in response:
        return openai.read(response, provider)
    return openai_responses.read(response, provider)
