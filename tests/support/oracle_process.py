"""The oracle as a child process, and what it has reported as acknowledged."""

import json
import socket
import subprocess
import sys
import threading


def free_port():
    """A port that nobody uses now; a collector that is killed and started again keeps it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Oracle:
    """Sends until told to finish; `acknowledged` maps trace ids to the ids of their events."""

    def __init__(self, url, run_id, seed):
        self.acknowledged = {}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.oracle", url, run_id, str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
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
        """Let it finish what is under way; its exit status."""
        self.process.stdin.close()
        status = self.process.wait(180)
        self._reader.join()
        self.process.stdout.close()
        return status
