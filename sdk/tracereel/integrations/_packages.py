"""Checks for the optional packages of integrations: missing or too old."""

import functools
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import Final

OLDEST: Final = {
    "anthropic": ("anthropic", "0.60"),
    "celery": ("celery", "5.4"),
    "google": ("google-genai", "1.20"),
    "langchain": ("langchain-core", "1.0"),
    "langgraph": ("langgraph", "1.0"),
    "mcp": ("mcp", "2.0"),
    "openai": ("openai", "1.90"),
    "openai-agents": ("openai-agents", "0.20"),
    "pydantic-ai": ("pydantic-ai-slim", "2.0"),
    "rq": ("rq", "2.0"),
}
"""Extra of `tracereel[…]` → package and oldest fully supported version."""


@contextmanager
def needed(extra: str) -> Iterator[None]:
    """Explain import errors of an integration's package.

    Raises:
        ImportError: a package is missing or too old; the message names the package to install.
    """
    try:
        yield
    except ImportError as error:
        package, oldest = OLDEST[extra]
        found = _installed(package)
        kind = ImportError if found is not None else ModuleNotFoundError
        here = f"{found} is installed" if found is not None else "it is not installed"
        message = (
            f"tracereel records {package} from version {oldest} on; {here} ({error}):"
            f' pip install --upgrade "tracereel[{extra}]"'
        )
        raise kind(message, name=error.name) from error


@functools.cache
def warn_if_old(extra: str) -> None:
    """Warn once if a package is older than the oldest supported version."""
    package, oldest = OLDEST[extra]
    found = _installed(package)
    if found is not None and _numbers(found) < _numbers(oldest):
        warnings.warn(
            f"{package} {found} is older than {oldest}: tracereel may record its calls in part, or"
            f' not at all; pip install --upgrade "tracereel[{extra}]"',
            stacklevel=3,
        )


def kind_of(value: object) -> str:
    """Return the type of an invalid argument for an error message."""
    return f"the class {value.__name__} itself" if isinstance(value, type) else type(value).__name__


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
