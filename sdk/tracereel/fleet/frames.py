"""Messages between the processes of a fleet replay: a length and that many bytes, with a deadline."""

import os
import select
import time
from typing import Final

from tracereel.fleet.file import MAX_LINE

_HEAD: Final = 8
MAX_FRAME: Final = MAX_LINE


class ExchangeError(Exception):
    """The other side is gone, silent or sends something else."""


class SilentError(ExchangeError):
    """The other side sent nothing in time."""


def send(descriptor: int, data: bytes) -> None:
    """Send a message."""
    view = memoryview(len(data).to_bytes(_HEAD) + data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError as error:
        raise ExchangeError(f"the other process is gone ({error.strerror})") from error


def receive(
    descriptor: int, *, seconds: float | None = None, most: int = MAX_FRAME
) -> bytes | None:
    """Receive a message; `None` if the other side has closed its end.

    Raises:
        SilentError: it is not complete in time.
        ExchangeError: it is cut or too long.
    """
    until = None if seconds is None else time.monotonic() + seconds
    head = _read(descriptor, _HEAD, until)
    if not head:
        return None
    size = int.from_bytes(head)
    if size > most:
        raise ExchangeError(f"a message of {size} bytes came; at most {most} are accepted")
    data = _read(descriptor, size, until)
    if len(data) < size:
        raise ExchangeError("a message was cut")
    return data


def _read(descriptor: int, size: int, until: float | None) -> bytes:
    parts: list[bytes] = []
    poller = select.poll()  # select() refuses descriptors above 1,023
    poller.register(descriptor, select.POLLIN)
    while size:
        if until is not None:
            left = until - time.monotonic()
            if left <= 0 or not poller.poll(left * 1_000):
                raise SilentError("nothing came in time")
        try:
            some = os.read(descriptor, min(size, 1 << 20))
        except OSError as error:
            raise ExchangeError(f"the other process is gone ({error.strerror})") from error
        if not some:
            break
        parts.append(some)
        size -= len(some)
    return b"".join(parts)
