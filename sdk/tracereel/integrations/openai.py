"""OpenAI integration: records chat completions, responses, completions, embeddings, decisions.

    from tracereel.integrations.openai import wrap
    client = wrap(openai.OpenAI())

Azure clients, asynchronous clients, streams, stream helpers, raw responses and copies made with
`with_options` are recorded too. `unwrap(client)` stops recording.
"""

from typing import Any, Final, TypeVar

from tracereel.integrations import _client_hooks, _packages, _stainless
from tracereel.integrations._dialects import (
    CHAT,
    COMPLETIONS,
    DECISIONS,
    EMBEDDINGS,
    RESPONSES,
)

ClientT = TypeVar("ClientT")

_ROUTES: Final = {
    "/chat/completions": CHAT,
    "/responses": RESPONSES,
    "/completions": COMPLETIONS,
    "/embeddings": EMBEDDINGS,
    "/decisions": DECISIONS,
}
_EXPECTED: Final = "openai.OpenAI, openai.AsyncOpenAI or one of Azure's"
_patches: Final = _client_hooks.ClassHooks()


def wrap(client: ClientT, *, provider: str | None = None) -> ClientT:
    """Record the calls of one client; return the same client.

    Args:
        provider: provider name in events and metrics, for OpenAI-compatible servers; default:
            `azure_openai` for Azure clients, else `openai`.

    Raises:
        TypeError: it is not an OpenAI client.
    """
    return _stainless.wrap(client, "openai", _EXPECTED, _recording(provider))


def unwrap(client: ClientT) -> ClientT:
    """Stop recording a client; return the same client."""
    return _stainless.unwrap(client)


def instrument() -> None:
    """Record the calls of all OpenAI clients in this process until `uninstrument`."""
    with _packages.needed("openai"):
        import openai

    _packages.warn_if_old("openai")
    classes = (openai.OpenAI, openai.AsyncOpenAI)
    _patches.apply({kind: _stainless.hooks_of(kind) for kind in classes}, _recording(None))


def uninstrument() -> None:
    """Undo `instrument`."""
    _patches.undo()


def _recording(provider: str | None) -> _stainless.Recording:
    def named(client: Any) -> str:
        return provider or ("azure_openai" if "Azure" in type(client).__name__ else "openai")

    return _stainless.Recording(_ROUTES, named)
