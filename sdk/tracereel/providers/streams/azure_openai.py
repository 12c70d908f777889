"""Stream adapter for Azure OpenAI; its first chunk may contain only prompt filter results."""

from tracereel.providers.streams.openai import OpenAIStreamAdapter


class AzureOpenAIStreamAdapter(OpenAIStreamAdapter):
    """Adapter for chunks and events of Azure deployments."""

    provider = "azure_openai"
