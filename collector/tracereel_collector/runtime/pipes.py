"""Polling of pipes with any descriptor number."""

import select


def can_be_read(descriptor: int, *, within: float) -> bool:
    """Return whether data or end of file can be read within `within` seconds.

    Unlike `select.select`, this has no limit of 1024 descriptors, which a collector with many
    connections exceeds.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(within * 1000))
