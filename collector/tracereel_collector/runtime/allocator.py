"""Settings of the C allocator that return the memory of large bodies to the system."""

import contextlib
import ctypes

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
LARGE = 1024 * 1024
ARENAS = 2


def return_large_blocks() -> None:
    """Map large blocks separately; otherwise glibc raises its threshold and keeps them.

    A no-op with other C libraries.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, LARGE)
        library.mallopt(_M_ARENA_MAX, ARENAS)
