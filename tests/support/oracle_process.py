"""The oracle as a child process, with its acknowledged events."""

import json
import os
import socket
import subprocess
import sys
import threading


def free_port():
    """Return an unused port, which a restarted collector keeps."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Oracle:
    """Oracle process; `acknowledged` maps trace ids to the ids of their events."""

    def __init__(self, urls, run_id, seed, *, key="", kinds=()):
        self.acknowledged = {}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.oracle", urls, run_id, str(seed), *kinds],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TRACEREEL_API_KEY": key},
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            trace, ids = json.loads(line)
            self.acknowledged.setdefault(trace, []).extend(ids)

    @property
    def count(self):
        return sum(map(len, list(self.acknowledged.values())))

    def finish(self):
        """Let it finish its current batch; return its exit status."""
        self.process.stdin.close()
        status = self.process.wait(600)
        self._reader.join()
        self.process.stdout.close()
        return status

    def close(self):
        """Kill it if it still runs, so that a failed test ends."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
