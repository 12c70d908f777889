"""Capabilities of models, by provider and model family."""

import re
from typing import Final

import msgspec

from tracereel.providers.names import known_provider


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """Capabilities of a model."""

    streaming: bool = True
    tools: bool = True
    vision: bool = True
    reasoning: bool = False
    """Whether it may return its reasoning."""
    citations: bool = False
    """Whether it may cite sources."""
    web_search: bool = False
    """Whether the provider offers web search."""


PROVIDER_CAPABILITIES: Final[dict[str, Capabilities]] = {
    "anthropic": Capabilities(reasoning=True, citations=True, web_search=True),
    "azure_openai": Capabilities(),
    "openai": Capabilities(),
    "google": Capabilities(),
}
"""Provider → default capabilities of its models."""

_REASONING: Final = Capabilities(reasoning=True)
_SMALL_REASONING: Final = Capabilities(reasoning=True, vision=False)
_SEARCHING: Final = Capabilities(citations=True, web_search=True)
_GEMINI: Final = Capabilities(reasoning=True, citations=True, web_search=True)
_OPENAI_FAMILIES: Final = (
    ("o1-mini", _SMALL_REASONING),
    ("o3-mini", _SMALL_REASONING),
    ("o1", _REASONING),
    ("o3", _REASONING),
    ("o4", _REASONING),
    ("gpt-5", _REASONING),
    ("gpt-4o-search", _SEARCHING),
    ("gpt-4o-mini-search", _SEARCHING),
    ("gpt-3.5", Capabilities(vision=False)),
)

FAMILY_CAPABILITIES: Final[dict[str, tuple[tuple[str, Capabilities], ...]]] = {
    "anthropic": (
        ("claude-3-opus", Capabilities(citations=True)),
        ("claude-3-sonnet", Capabilities(citations=True)),
        ("claude-3-haiku", Capabilities(citations=True)),
        ("claude-2", Capabilities(vision=False, tools=False)),
        ("claude-instant", Capabilities(vision=False, tools=False)),
    ),
    "azure_openai": _OPENAI_FAMILIES,
    "openai": _OPENAI_FAMILIES,
    "google": (
        ("gemini-2.0", _SEARCHING),
        ("gemini-2.5", _GEMINI),
        ("gemini-3", _GEMINI),
        ("gemini-1.0", Capabilities(vision=False)),
    ),
}
"""Provider → model name prefixes and capabilities; the first match is used."""


def capabilities_for(provider: str, model: str | None = None) -> Capabilities:
    """Return the capabilities of a model, or the provider's defaults without a model.

    Raises:
        UnknownProviderError: no capabilities are known for that provider.
    """
    name = known_provider(provider, PROVIDER_CAPABILITIES)
    # Deployments and gateways add prefixes: `models/gemini-2.5-pro`, `eu.anthropic.claude-…`
    bare = re.sub(r"^.*(/|anthropic\.)", "", (model or "").lower())
    for family, capabilities in FAMILY_CAPABILITIES[name]:
        if re.match(re.escape(family) + r"(?![0-9])", bare):
            return capabilities
    return PROVIDER_CAPABILITIES[name]
