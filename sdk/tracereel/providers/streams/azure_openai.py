"""Azure OpenAI's streams: OpenAI's chunks, the first of which may speak of the prompt's filters only."""

from tracereel.providers.streams.openai import OpenAIStreamAdapter


class AzureOpenAIStreamAdapter(OpenAIStreamAdapter):
    """Chunks and events of Azure's deployments."""

    provider = "azure_openai"
