"""Named points at which tests can kill the process; free when unused."""

import os

_AT, _, _COUNT = os.environ.get("TRACEREEL_CRASH_AT", "").partition(":")
_left = int(_COUNT or 1)


def _die_here(name: str) -> None:
    global _left
    if name == _AT:
        _left -= 1
        if _left == 0:
            os._exit(137)


def _go_on(name: str) -> None:
    pass


here = _die_here if _AT else _go_on
"""`failpoints.here("after_insert")`; `TRACEREEL_CRASH_AT=after_insert:3` dies at the third call."""
