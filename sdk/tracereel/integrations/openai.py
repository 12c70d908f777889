"""OpenAI's client: chat completions, responses, completions and embeddings, recorded as model calls.

    from tracereel.integrations.openai import wrap

    client = wrap(openai.OpenAI())

Azure's clients, asynchronous clients, streams, stream helpers, raw responses and copies made with
`with_options` are recorded alike. `unwrap(client)` ends it.
"""

from typing import Any, Final, TypeVar

from tracereel.integrations import _packages, _stainless
from tracereel.integrations._dialects import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES

ClientT = TypeVar("ClientT")

_ROUTES: Final = {
    "/chat/completions": CHAT,
    "/responses": RESPONSES,
    "/completions": COMPLETIONS,
    "/embeddings": EMBEDDINGS,
}
_patches: Final = _stainless.Patches()


def wrap(client: ClientT, *, provider: str | None = None) -> ClientT:
    """Record the calls of one client; gives the same client back.

    Args:
        provider: the name of the provider in events and metrics, for servers of others that speak
            OpenAI's language; else `azure_openai` for Azure's clients and `openai`.

    Raises:
        TypeError: it is no client of OpenAI's.
    """
    _stainless.check(client, "openai", "openai.OpenAI, openai.AsyncOpenAI or one of Azure's")
    _packages.warn_if_old("openai")
    return _stainless.wrap(client, _recording(provider))


def unwrap(client: ClientT) -> ClientT:
    """Record the calls of a client no longer; gives the same client back."""
    return _stainless.unwrap(client)


def instrument() -> None:
    """Record the calls of every client of OpenAI's in this process, until `uninstrument`."""
    with _packages.needed("openai"):
        import openai

    _packages.warn_if_old("openai")
    _patches.apply((openai.OpenAI, openai.AsyncOpenAI), _recording(None))


def uninstrument() -> None:
    """Undo `instrument`."""
    _patches.undo()


def _recording(provider: str | None) -> _stainless.Recording:
    def named(client: Any) -> str:
        return provider or ("azure_openai" if "Azure" in type(client).__name__ else "openai")

    return _stainless.Recording(_ROUTES, named)
