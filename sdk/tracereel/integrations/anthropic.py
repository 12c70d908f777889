"""Anthropic's client: every message it asks for is recorded as a call of a model.

    from tracereel.integrations.anthropic import wrap

    client = wrap(anthropic.Anthropic())

Clients for Bedrock, Vertex and Foundry, asynchronous clients, streams, stream helpers, raw responses
and copies made with `with_options` are recorded alike. `unwrap(client)` ends it.
"""

from typing import Any, Final, TypeVar

from tracereel.integrations import _packages, _stainless
from tracereel.integrations._dialects import ANTHROPIC

ClientT = TypeVar("ClientT")

_ROUTES: Final = {"/v1/messages": ANTHROPIC}
_patches: Final = _stainless.Patches()


def wrap(client: ClientT, *, provider: str = "anthropic") -> ClientT:
    """Record the calls of one client; gives the same client back.

    Args:
        provider: the name of the provider in events and metrics.

    Raises:
        TypeError: it is no client of Anthropic's.
    """
    _stainless.check(client, "anthropic", "anthropic.Anthropic or anthropic.AsyncAnthropic")
    _packages.warn_if_old("anthropic")
    return _stainless.wrap(client, _recording(provider))


def unwrap(client: ClientT) -> ClientT:
    """Record the calls of a client no longer; gives the same client back."""
    return _stainless.unwrap(client)


def instrument() -> None:
    """Record the calls of every client of Anthropic's in this process, until `uninstrument`."""
    with _packages.needed("anthropic"):
        import anthropic

    _packages.warn_if_old("anthropic")
    _patches.apply((anthropic.Anthropic, anthropic.AsyncAnthropic), _recording("anthropic"))


def uninstrument() -> None:
    """Undo `instrument`."""
    _patches.undo()


def _recording(provider: str) -> _stainless.Recording:
    def named(_client: Any) -> str:
        return provider

    return _stainless.Recording(_ROUTES, named)
