"""The error of asking for a provider that nobody here knows."""

from collections.abc import Iterable

from tracereel.errors import TracereelError


class UnknownProviderError(TracereelError, LookupError):
    """No provider has that name; the message says which there are."""

    def __init__(self, provider: object, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known))
        super().__init__(f"provider {provider!r} is not known; known are {names}")
