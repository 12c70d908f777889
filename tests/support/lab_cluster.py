"""ClickHouse cluster of 2 shards with 2 replicas each and ZooKeeper, whose parts can be killed.

The cluster is made by `lab.py` of a folder outside of this repository, because its nodes are patched:
the unpatched library has no interserver listener. This build of a node also aborts by itself when another
node resets a connection to it; it is started again, as a service manager does.
"""

import importlib.util
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from tests.support.clickhouse_server import BACKUP_DISK, PASSWORD, USER, backup_disk
from tests.support.collector import free_port, http
from tests.support.server_users import NAME, RIGHTS_DATABASE, documented_rights, profile, user
from tests.support.waiting import wait_until


@dataclass
class Part:
    """Process of the cluster that can be killed and started again."""

    name: str
    process: subprocess.Popen
    port: int
    """HTTP port; 0 for ZooKeeper."""

    @property
    def dsn(self) -> str:
        """Return what `--store` takes, without a database."""
        return f"clickhouse://{USER}:{PASSWORD}@127.0.0.1:{self.port}"

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def start(self, environ: dict[str, str]) -> None:
        """Start it again with the same command."""
        self.process = subprocess.Popen(self.process.args, env=environ)

    def answers(self) -> bool:
        try:
            return http("GET", f"http://127.0.0.1:{self.port}/ping", timeout=2).status == 200
        except OSError:
            return False


class LabCluster:
    """Running cluster with its data below a folder."""

    def __init__(self, lab: Path, folder: Path) -> None:
        spec = importlib.util.spec_from_file_location("lab", lab / "lab.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.get()
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package", "zk"):
            (folder / name).symlink_to(module.HOME / name)
        module.HOME = folder
        module.NODES = [
            (name, free_port(), free_port(), shard, replica)
            for name, _, _, shard, replica in module.NODES
        ]
        module.ZK = free_port()
        self._interserver = {
            node[0]: f"127.0.0.2:{node[2]}" for node in module.NODES
        }  # the address that the other nodes fetch parts from
        limited = user(documented_rights(RIGHTS_DATABASE, cluster=True))
        module.USERS = module.USERS.replace("</profiles>", f"{profile()}</profiles>").replace(
            "</users>", f"{limited}</users>"
        )
        start = module.start

        def start_with_disk(config: Path, *args: object, **environ: str) -> subprocess.Popen:
            text = config.read_text().removesuffix("</clickhouse>")
            config.write_text(f"{text}{backup_disk(folder / 'backups')}</clickhouse>")
            return start(config, *args, **environ)

        module.start = start_with_disk
        processes, ports = module.cluster()
        self.keeper = Part("zookeeper", processes[0], 0)
        self.nodes = [
            Part(node[0], process, port)
            for node, process, port in zip(module.NODES, processes[1:], ports, strict=True)
        ]
        assert all(node.answers() for node in self.nodes), "a node did not start"
        self.aborted = 0
        self._starting = threading.Lock()
        self._closing = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    @property
    def environ(self) -> dict[str, str]:
        """Return the settings of the tests that need a cluster."""
        return {
            "TRACEREEL_TEST_CLUSTER": ",".join(node.dsn for node in self.nodes),
            "TRACEREEL_TEST_CLUSTER_USER": f"{NAME}:{PASSWORD}",
            "TRACEREEL_TEST_CLUSTER_DISK": BACKUP_DISK,
        }

    @property
    def addresses(self) -> str:
        """Return what `tracereel schema apply --nodes` takes."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def start(self, part: Part) -> None:
        """Start an ended part again and wait until it answers."""
        self._launch(part)
        if part is not self.keeper:
            wait_until(part.answers, timeout=900, message=f"{part.name} does not answer")

    def _launch(self, part: Part) -> None:
        environ = dict(os.environ)
        if part is not self.keeper:
            environ["REPL"] = self._interserver[part.name]
        with self._starting:
            if part.process.poll() is not None:
                part.start(environ)

    def _watch(self) -> None:
        """Start nodes again that aborted by themselves; those that were killed wait for `start`."""
        while not self._closing.wait(0.5):
            for node in self.nodes:
                if node.process.poll() == -signal.SIGABRT:
                    self.aborted += 1
                    self._launch(node)

    def shard(self, number: int) -> list[Part]:
        """Return the replicas of a shard, counted from 0."""
        return self.nodes[2 * number : 2 * number + 2]

    def close(self) -> None:
        self._closing.set()
        self._watcher.join(10)
        for part in (*self.nodes, self.keeper):
            if part.process.poll() is None:
                part.kill()


if __name__ == "__main__":
    cluster = LabCluster(Path(sys.argv[1]), Path(sys.argv[2]))
    print(*(f"{name}={value}" for name, value in cluster.environ.items()), flush=True)
    sys.stdin.readline()
    cluster.close()
