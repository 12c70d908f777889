"""The providers by name, and which one a name or a model means."""

import re
from typing import Final

PROVIDERS: Final = ("anthropic", "azure_openai", "google", "langchain", "openai")
_ALIASES: Final = {
    "azure": "azure_openai",
    "azure_ai_openai": "azure_openai",
    "azureopenai": "azure_openai",
    "chatanthropic": "anthropic",
    "claude": "anthropic",
    "gcp_gemini": "google",
    "gcp_vertex_ai": "google",
    "gemini": "google",
    "google_genai": "google",
    "google_vertexai": "google",
    "langgraph": "langchain",
    "openai_responses": "openai",
    "vertexai": "google",
}
_MODELS: Final = (
    (re.compile(r"(^|[./])claude", re.IGNORECASE), "anthropic"),
    (re.compile(r"(^|/)(gpt-|chatgpt-|o[1-9](-|$))", re.IGNORECASE), "openai"),
    (re.compile(r"(^|/)gemini", re.IGNORECASE), "google"),
)


def provider_named(name: str) -> str | None:
    """Our name for a provider, also by the names of OpenTelemetry and LangChain; null if unknown."""
    if name in PROVIDERS:
        return name
    key = re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")
    return key if key in PROVIDERS else _ALIASES.get(key)


def provider_of_model(model: str | None) -> str | None:
    """The provider whose models are called so; null if that cannot be told."""
    if not model:
        return None
    return next((provider for pattern, provider in _MODELS if pattern.search(model)), None)
