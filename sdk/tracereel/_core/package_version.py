"""Version of the installed package that a function belongs to."""

import functools
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from tracereel._redact import values
from tracereel._runtime import guard


def version_of(function: Callable[..., Any]) -> str | None:
    """Return the version of a function's distribution or top-level package, or None."""
    name = getattr(function, "__module__", None)
    try:
        return _of_module(name) if isinstance(name, str) else None
    except Exception as error:  # noqa: BLE001 - damaged metadata, odd modules
        guard.pass_on(error)
        return None


@functools.lru_cache(maxsize=1024)
def _of_module(name: str) -> str | None:
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if name == "__main__":  # a script, or `python -m package.module`
        name = getattr(getattr(module, "__spec__", None), "name", "")
    if not isinstance(file, str) or not name:
        return None
    parts = name.split(".")
    # A distribution is named like its package; one in a namespace like `google.cloud` too.
    for end in range(len(parts), 0, -1):
        try:
            found = metadata.distribution("-".join(parts[:end]))
        except metadata.PackageNotFoundError:
            continue
        if _contains(found, Path(file).resolve()):
            return values.label(found.version)
    version = vars(sys.modules.get(parts[0], object)).get("__version__")
    return values.label(version) if isinstance(version, str) else None


def _contains(found: metadata.Distribution, file: Path) -> bool:
    """Return whether a file is in the directory that a distribution was installed into or from."""
    origin = found.read_text("direct_url.json")
    if origin is not None:
        about = msgspec.json.decode(origin)
        if about.get("dir_info", {}).get("editable"):
            return file.is_relative_to(Path(unquote(urlsplit(about["url"]).path)).resolve())
    return file.is_relative_to(Path(str(found.locate_file(""))).resolve())
