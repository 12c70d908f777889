"""Provider names, their aliases, and detection by model name."""

import re
from collections.abc import Iterable
from typing import Final

from tracereel.errors import TracereelError

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


class UnknownProviderError(TracereelError, LookupError):
    """The provider is unknown; the message lists the known ones."""

    def __init__(self, provider: object, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known))
        super().__init__(f"provider {provider!r} is not known; known are {names}")


def known_provider(name: object, known: Iterable[str] = PROVIDERS) -> str:
    """Return the canonical name of one of the known providers.

    Raises:
        UnknownProviderError: it is none of them.
    """
    found = provider_named(name) if isinstance(name, str) else None
    if found is None or found not in known:
        raise UnknownProviderError(name, known)
    return found


def provider_named(name: str) -> str | None:
    """Return the canonical name of a provider, or `None` if it is unknown.

    Names of OpenTelemetry and LangChain are accepted too.
    """
    if name in PROVIDERS:
        return name
    key = re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")
    return key if key in PROVIDERS else _ALIASES.get(key)


def provider_of_model(model: str | None) -> str | None:
    """Return the provider of a model by its name, or `None` if it is unknown."""
    if not model:
        return None
    return next((provider for pattern, provider in _MODELS if pattern.search(model)), None)
