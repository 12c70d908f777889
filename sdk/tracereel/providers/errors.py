"""Error for unknown providers."""

from collections.abc import Iterable

from tracereel.errors import TracereelError


class UnknownProviderError(TracereelError, LookupError):
    """The provider is unknown; the message lists the known ones."""

    def __init__(self, provider: object, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known))
        super().__init__(f"provider {provider!r} is not known; known are {names}")
