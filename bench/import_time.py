"""Measure the import time of the SDK in fresh interpreters.

python bench/import_time.py
"""

import statistics
import subprocess
import sys
import tempfile

IMPORT = "import tracereel"
FIRST_CALL = "import tracereel; tracereel.traced_agent('a')(lambda: None)()"


def seconds(code: str) -> float:
    """Return the wall time of a statement in a fresh interpreter."""
    script = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    environ = {
        "TRACEREEL_ENABLED": "true",
        "TRACEREEL_SPOOL_DIR": tempfile.gettempdir(),
        "TRACEREEL_EXIT_TIMEOUT": "0",
        "PATH": "",
    }
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environ
    )
    return float(done.stdout)


def main() -> None:
    """Print the medians of five runs."""
    for name, code in (("import tracereel", IMPORT), ("first decorated call", FIRST_CALL)):
        seconds(code)
        times = [seconds(code) * 1e3 for _ in range(5)]
        print(f"{name:24} {statistics.median(times):7.1f} ms")


if __name__ == "__main__":
    main()
