"""Stream adapters for each provider and for LangChain event streams."""

from typing import Any, Final

from tracereel.providers.names import known_provider
from tracereel.providers.streams.anthropic import AnthropicStreamAdapter
from tracereel.providers.streams.base import StreamAdapter
from tracereel.providers.streams.google import GoogleStreamAdapter
from tracereel.providers.streams.langchain import LangChainStreamAdapter
from tracereel.providers.streams.openai import AzureOpenAIStreamAdapter, OpenAIStreamAdapter

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
    return ADAPTERS[known_provider(provider)](**options)
