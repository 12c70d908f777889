"""Anthropic integration: records messages of the `anthropic` client as model calls.

    from tracereel.integrations.anthropic import wrap
    client = wrap(anthropic.Anthropic())

Clients for Bedrock, Vertex and Foundry, asynchronous clients, streams, stream helpers, raw
responses and copies made with `with_options` are recorded too. `unwrap(client)` stops recording.
"""

from typing import Final, TypeVar

from tracereel.integrations import _client_hooks, _packages, _stainless
from tracereel.integrations._dialects import ANTHROPIC

ClientT = TypeVar("ClientT")

_ROUTES: Final = {"/v1/messages": ANTHROPIC}
_EXPECTED: Final = "anthropic.Anthropic or anthropic.AsyncAnthropic"
_patches: Final = _client_hooks.ClassHooks()


def wrap(client: ClientT, *, provider: str = "anthropic") -> ClientT:
    """Record the calls of one client; return the same client.

    Args:
        provider: provider name in events and metrics.

    Raises:
        TypeError: it is not an Anthropic client.
    """
    return _stainless.wrap(client, "anthropic", _EXPECTED, _recording(provider))


def unwrap(client: ClientT) -> ClientT:
    """Stop recording a client; return the same client."""
    return _stainless.unwrap(client)


def instrument() -> None:
    """Record the calls of all Anthropic clients in this process until `uninstrument`."""
    with _packages.needed("anthropic"):
        import anthropic

    _packages.warn_if_old("anthropic")
    classes = (anthropic.Anthropic, anthropic.AsyncAnthropic)
    _patches.apply({kind: _stainless.hooks_of(kind) for kind in classes}, _recording("anthropic"))


def uninstrument() -> None:
    """Undo `instrument`."""
    _patches.undo()


def _recording(provider: str) -> _stainless.Recording:
    return _stainless.Recording(_ROUTES, lambda _client: provider)
