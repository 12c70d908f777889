"""ClickHouse as a process: the main function of `libchdb.so`, which is clickhouse-local's.

    python clickhouse_main.py LIBRARY ARGUMENT...

It imports nothing of ours, so that the process is ClickHouse and little else.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    library, *arguments = sys.argv[1:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        sys.exit("the process that wanted the server has ended")
    words = [b"clickhouse", *(os.fsencode(each) for each in arguments)]
    loaded = ctypes.CDLL(library)
    run = loaded.chdb_query_cmdline
    run.restype = ctypes.c_void_p
    run.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    result = run(len(words), (ctypes.c_char_p * len(words))(*words))
    error = loaded.chdb_result_error
    error.restype = ctypes.c_char_p
    error.argtypes = [ctypes.c_void_p]
    sys.exit(f"ClickHouse ended: {(error(result) or b'without an error').decode(errors='replace')}")


if __name__ == "__main__":
    main()
