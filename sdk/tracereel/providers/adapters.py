"""Adapters for the messages of complete results, one per provider."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal, Protocol

from msgspec import structs

from tracereel.providers.base import NormalizedEvent, StopReason, Usage
from tracereel.providers.blocks import REQUESTS, REQUESTS_AT_PROVIDER, TEXTS, THOUGHTS
from tracereel.providers.google import is_function_call
from tracereel.providers.langchain import read_message
from tracereel.providers.names import known_provider
from tracereel.providers.reading import as_data, mapping, text
from tracereel.providers.stop_reasons import canonical_stop_reason
from tracereel.providers.turn import message_events
from tracereel.providers.usage import usage_of

BlockType = Literal["thinking", "text", "tool_use"]


class ProviderAdapter(Protocol):
    """Description of a provider for `BatchResultNormalizer.normalize`."""

    @property
    def provider(self) -> str:
        """Name of the provider."""

    def normalize_message(self, message: Any, index: int) -> Sequence[NormalizedEvent]:
        """Return the events of one assistant message, in order."""

    def detect_block_type(self, block: Any) -> BlockType | None:
        """Return the kind of a content block, or `None` for another kind."""

    def normalize_stop_reason(self, reason: str | None) -> StopReason | None:
        """Return the canonical stop reason."""

    def extract_usage(self, message: Any) -> Usage | None:
        """Return the tokens of a message, or `None` if it has none."""


class MessageAdapter:
    """Base of the adapters; a subclass may override any method.

    `normalize_message` uses the stop reason and the usage that the other methods return.
    """

    provider: ClassVar[str] = "langchain"

    def normalize_message(self, message: Any, index: int = 0) -> tuple[NormalizedEvent, ...]:
        """Return the events of one assistant message; the first has the number `index`.

        Stop reason and tokens are on the last event.
        """
        provider = None if self.provider == "langchain" else self.provider
        answer = read_message(as_data(message), provider)
        answer.usage = self.extract_usage(message)
        events = message_events(answer, index)
        last = events[-1]
        if last.stop_reason_raw is not None and last.stop_reason not in ("refused", "error"):
            stop = self.normalize_stop_reason(last.stop_reason_raw)
            events[-1] = structs.replace(last, stop_reason=stop)
        return tuple(
            structs.replace(event, original_index=index + position)
            for position, event in enumerate(events)
        )

    def detect_block_type(self, block: Any) -> BlockType | None:
        """Return the kind of a content block, or `None` if it is none of the three."""
        if isinstance(block, str):
            return "text"
        data = mapping(as_data(block))
        kind = text(data.get("type"))
        if kind in THOUGHTS or (kind is None and data.get("thought") is True):
            return "thinking"
        if kind in REQUESTS or kind in REQUESTS_AT_PROVIDER or is_function_call(data):
            return "tool_use"
        return "text" if kind in TEXTS or (kind is None and text(data.get("text"))) else None

    def normalize_stop_reason(self, reason: str | None) -> StopReason | None:
        """Return the canonical stop reason; an unknown one is a success and logs a warning."""
        return canonical_stop_reason(reason, self.provider)[0]

    def extract_usage(self, message: Any) -> Usage | None:
        """Return the tokens of a message, or `None` if it has none."""
        return usage_of(as_data(message))


class AnthropicAdapter(MessageAdapter):
    """Adapter for Claude's messages."""

    provider = "anthropic"


class OpenAIAdapter(MessageAdapter):
    """Adapter for OpenAI's messages."""

    provider = "openai"


class AzureOpenAIAdapter(MessageAdapter):
    """Adapter for the messages of Azure OpenAI."""

    provider = "azure_openai"


class GoogleAdapter(MessageAdapter):
    """Adapter for Gemini's messages."""

    provider = "google"


class LangChainAdapter(MessageAdapter):
    """Adapter for messages that name their provider themselves."""

    provider = "langchain"


BATCH_ADAPTERS: Final[dict[str, type[MessageAdapter]]] = {
    adapter.provider: adapter
    for adapter in (
        AnthropicAdapter,
        AzureOpenAIAdapter,
        GoogleAdapter,
        LangChainAdapter,
        OpenAIAdapter,
    )
}
"""Provider → its adapter."""


class BatchAdapterFactory:
    """Creates adapters by the provider's name."""

    @staticmethod
    def create(provider: str) -> MessageAdapter:
        """Create the adapter of a provider; aliases of its name are accepted.

        Raises:
            UnknownProviderError: the provider is unknown; the message lists the known ones.
        """
        return BATCH_ADAPTERS[known_provider(provider)]()
