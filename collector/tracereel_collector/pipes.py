"""Waiting for a pipe, whatever its number."""

import select


def can_be_read(descriptor: int, *, within: float) -> bool:
    """Whether there is something to read, or the end, within so many seconds.

    Not `select.select`: it knows only 1024 descriptors, and a collector with many connections that has
    to start its engine again has more.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(within * 1000))
