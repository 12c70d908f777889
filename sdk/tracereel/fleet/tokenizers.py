"""Counts of tokens by tiktoken, where it is installed and has the encoding on disk."""

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tracereel.errors import ReplayStoppedError

MAX_TEXT: Final = 1_000_000
"""Longest text that is counted, in characters."""
_CACHE: Final = "TIKTOKEN_CACHE_DIR"


def keep_cache_place() -> None:
    """Name the cache of tiktoken before the folder for temporary files changes."""
    os.environ.setdefault(_CACHE, str(Path(tempfile.gettempdir(), "data-gym-cache")))


def load(models: Iterable[str]) -> None:
    """Load the encodings of models, so that forked processes have them."""
    for model in models:
        _encoding(model)


def tokens_of(model: str, text: str) -> int | None:
    """Return the number of tokens, or `None` if the text is too long or the encoding not there."""
    encoding = _encoding(model) if len(text) <= MAX_TEXT else None
    return None if encoding is None else len(encoding.encode_ordinary(text))


def _encoding(model: str) -> Any:
    try:
        import tiktoken
    except ImportError:
        return None
    with contextlib.suppress(KeyError):
        return _loaded(tiktoken.encoding_name_for_model(model.rpartition("/")[2]))
    return None


@functools.cache
def _loaded(name: str) -> Any:
    """Return an encoding; without a network it must be in the cache of tiktoken."""
    import tiktoken

    try:
        return tiktoken.get_encoding(name)
    except (Exception, ReplayStoppedError):  # noqa: BLE001 - the ratio is used instead
        return None
