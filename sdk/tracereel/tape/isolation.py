"""A process without network: a Linux network namespace that has no interfaces.

It holds for sockets of every library and for child processes, unlike the watch on Python's sockets.
"""

import ctypes
import os
import sys
from pathlib import Path
from typing import Final

_NEW_USER: Final = 0x10000000
_NEW_NET: Final = 0x40000000


def leave_network() -> str:
    """Move this process out of the network permanently; return why not, or an empty string.

    It works with the right to do so, or while the process has one thread and the system lets users
    have namespaces.
    """
    if not sys.platform.startswith("linux"):
        return f"{sys.platform} has no network namespaces"
    library = ctypes.CDLL(None, use_errno=True)
    unshare = getattr(library, "unshare", None)
    if unshare is None:
        return "this C library has no unshare"
    user, group = os.getuid(), os.getgid()
    if unshare(_NEW_NET) == 0:
        return ""
    if unshare(_NEW_USER | _NEW_NET) != 0:
        return os.strerror(ctypes.get_errno())
    try:
        # Keep the ids, which programs read to find their files.
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    except OSError:
        pass  # the ids become those of no user; there is no network either way
    return ""
