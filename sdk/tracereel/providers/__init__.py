"""Normalization of model responses and streams of all providers to canonical events.

No client library is imported; their objects and dictionaries are read by field.
"""

from tracereel.providers.adapters import (
    AnthropicAdapter,
    AzureOpenAIAdapter,
    BatchAdapterFactory,
    GoogleAdapter,
    LangChainAdapter,
    MessageAdapter,
    OpenAIAdapter,
    ProviderAdapter,
)
from tracereel.providers.base import (
    PERSISTENCE,
    ROLES,
    UNKNOWN_MODEL,
    Approval,
    Citation,
    Failure,
    Location,
    Normalized,
    NormalizedEvent,
    Problem,
    StreamEvent,
    StreamTimings,
    ToolCall,
    ToolResult,
    Usage,
)
from tracereel.providers.capabilities import Capabilities, capabilities_for
from tracereel.providers.emission import message_fields
from tracereel.providers.event_store import to_event_store
from tracereel.providers.names import UnknownProviderError
from tracereel.providers.normalizer import BatchResultNormalizer
from tracereel.providers.routing import Routing
from tracereel.providers.stop_reasons import STOP_REASONS, canonical_stop_reason
from tracereel.providers.streams import adapter_for
from tracereel.providers.streams.base import StreamAdapter
from tracereel.providers.usage import read_usage, usage_of
from tracereel.providers.waiting import active_seconds, waited_seconds

__all__ = [
    "PERSISTENCE",
    "ROLES",
    "STOP_REASONS",
    "UNKNOWN_MODEL",
    "AnthropicAdapter",
    "Approval",
    "AzureOpenAIAdapter",
    "BatchAdapterFactory",
    "BatchResultNormalizer",
    "Capabilities",
    "Citation",
    "Failure",
    "GoogleAdapter",
    "LangChainAdapter",
    "Location",
    "MessageAdapter",
    "Normalized",
    "NormalizedEvent",
    "OpenAIAdapter",
    "Problem",
    "ProviderAdapter",
    "Routing",
    "StreamAdapter",
    "StreamEvent",
    "StreamTimings",
    "ToolCall",
    "ToolResult",
    "UnknownProviderError",
    "Usage",
    "active_seconds",
    "adapter_for",
    "canonical_stop_reason",
    "capabilities_for",
    "message_fields",
    "read_usage",
    "to_event_store",
    "usage_of",
    "waited_seconds",
]
