"""What the providers' models can do, as data."""

import re
from typing import Final

import msgspec

from tracereel.providers.errors import UnknownProviderError
from tracereel.providers.names import provider_named


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What can be expected of a model."""

    streaming: bool = True
    tools: bool = True
    vision: bool = True
    reasoning: bool = False
    """It may show how it thinks."""
    citations: bool = False
    """It may name the sources of what it says."""
    web_search: bool = False
    """The provider searches the web for it."""


PROVIDER_CAPABILITIES: Final[dict[str, Capabilities]] = {
    "anthropic": Capabilities(reasoning=True, citations=True, web_search=True),
    "azure_openai": Capabilities(),
    "openai": Capabilities(),
    "google": Capabilities(),
}
"""Provider → what holds for its models where no family says otherwise."""

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
"""Provider → beginnings of model names, and what those models can do; the first that fits counts."""


def capabilities_for(provider: str, model: str | None = None) -> Capabilities:
    """What a provider's model can do; without a model, what holds for the provider.

    Raises:
        UnknownProviderError: no capabilities are known for that provider.
    """
    name = provider_named(provider) if isinstance(provider, str) else None
    known = PROVIDER_CAPABILITIES.get(name) if name is not None else None
    if name is None or known is None:
        raise UnknownProviderError(provider, PROVIDER_CAPABILITIES)
    # Deployments and gateways put things before the name: `models/gemini-2.5-pro`, `eu.anthropic.claude-…`
    bare = re.sub(r"^.*(/|anthropic\.)", "", (model or "").lower())
    for family, capabilities in FAMILY_CAPABILITIES[name]:
        if re.match(re.escape(family) + r"(?![0-9])", bare):
            return capabilities
    return known
