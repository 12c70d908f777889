"""Stream adapters for each provider and for LangChain event streams."""

from typing import Any, Final

from tracereel.providers.errors import UnknownProviderError
from tracereel.providers.names import provider_named
from tracereel.providers.streams.anthropic import AnthropicStreamAdapter
from tracereel.providers.streams.azure_openai import AzureOpenAIStreamAdapter
from tracereel.providers.streams.base import StreamAdapter
from tracereel.providers.streams.google import GoogleStreamAdapter
from tracereel.providers.streams.langchain import LangChainStreamAdapter
from tracereel.providers.streams.openai import OpenAIStreamAdapter

ADAPTERS: Final[dict[str, type[StreamAdapter]]] = {
    adapter.provider: adapter
    for adapter in (
        AnthropicStreamAdapter,
        AzureOpenAIStreamAdapter,
        GoogleStreamAdapter,
        LangChainStreamAdapter,
        OpenAIStreamAdapter,
    )
}


def adapter_for(provider: str, **options: Any) -> StreamAdapter:
    """Create an adapter for one stream of a provider; for `options` see `StreamAdapter`.

    Raises:
        UnknownProviderError: the provider is unknown; the message lists the known ones.
    """
    name = provider_named(provider) if isinstance(provider, str) else None
    if name is None:
        raise UnknownProviderError(provider, ADAPTERS)
    return ADAPTERS[name](**options)
