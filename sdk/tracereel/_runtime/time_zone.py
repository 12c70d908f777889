"""Time zone of the process."""

import functools
import os
import re
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,31}(?:/[A-Za-z0-9_+-]{1,31}){0,2}")
_LOCALTIME: Final = Path("/etc/localtime")
_TIMEZONE: Final = Path("/etc/timezone")


@functools.cache
def process_zone() -> str | None:
    """Return the name of the process's time zone, as `America/Mexico_City`, or None."""
    try:
        given = os.environ.get("TZ")
        if given is not None:
            return _name(given.removeprefix(":")) if given else "UTC"
        if not _LOCALTIME.exists():
            return "UTC"
        linked = _name(str(_LOCALTIME.resolve()))
        return linked or _name(_TIMEZONE.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        return None


def _name(text: str) -> str | None:
    """Return the name in a path below `zoneinfo`, or a text that is a name."""
    name = text.rpartition("zoneinfo/")[2].removeprefix("posix/").removeprefix("right/")
    return name if _NAME.fullmatch(name) else None
