"""Several collectors of one group on one store: their own engine with ClickHouse's HTTP interface."""

from collections import Counter
from pathlib import Path
from urllib.parse import quote

from tests.support.collector import CollectorProcess, free_port, http
from tests.support.engine_store import store_on
from tests.support.oracle_process import Oracle
from tests.support.waiting import wait_until
from tracereel_collector.engine.settings import EngineSettings
from tracereel_collector.engine.supervisor import Supervisor

SECRET = "a-secret-of-these-tests-only"


class CollectorGroup:
    """Collectors by name; all are started by `start`."""

    def __init__(self, folder: Path, names="abc", *, arguments=(), grpc=False, environ=None):
        self.engine = Supervisor(EngineSettings(store_dir=folder / "store"))
        self.engine.start()
        secret = quote(self.engine.secret)
        store = f"clickhouse://tracereel:{secret}@{self.engine.host}:{self.engine.port}/tracereel"
        ports = {name: free_port() for name in names}
        self.peers = ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in ports.items())
        self.collectors = {
            name: CollectorProcess(
                folder / name,
                port=port,
                grpc_port=free_port() if grpc else 0,
                arguments=("--workers", "1", *arguments, "--store", store),
                environ={**self.settings_of(name), **(environ or {})},
            )
            for name, port in ports.items()
        }

    def settings_of(self, name):
        """Return the settings that make a collector a member."""
        return {
            "TRACEREEL_PEERS": self.peers,
            "TRACEREEL_NAME": name,
            "TRACEREEL_GROUP_SECRET": SECRET,
        }

    def __getitem__(self, name):
        return self.collectors[name]

    def __iter__(self):
        return iter(self.collectors.values())

    def start(self, names=()):
        """Start all members; the first one makes the tables."""
        first, *others = names or self.collectors
        self[first].start()
        return self.restart(others)

    def set_members(self, names, **environ):
        """Change the list of members in the settings of all collectors, for their next start."""
        peers = ",".join(f"{name}=http://127.0.0.1:{self[name].port}" for name in names)
        for each in self:
            each.environ.update({"TRACEREEL_PEERS": peers, **environ})

    def state_of(self, name):
        """Return a member's own state."""
        return http("GET", f"{self[name].url}/readyz").json()["group"]["state"]

    def await_active(self, names):
        """Wait until members own their share."""
        wait_until(
            lambda: all(self.state_of(name) == "active" for name in names),
            timeout=60,
            message="the members are active",
        )

    def restart(self, names):
        """Start some members at the same time."""
        for name in names:
            self[name].start(wait=False)
        wait_until(lambda: all(self[name].url or self[name].ended() for name in names), timeout=120)
        return self

    def close(self):
        for each in self:
            if each.process is not None and each.process.poll() is None:
                each.kill()
        self.engine.stop()

    def running(self):
        """Return the collectors that run."""
        return [each for each in self if each.process and each.process.poll() is None]

    def peer_states(self, name):
        """Return what a member knows of its peers."""
        peers = http("GET", f"{self[name].url}/readyz").json()["group"]["peers"]
        return {peer: state["state"] for peer, state in peers.items()}

    def rows(self, statement):
        """Query the store itself."""
        store = store_on(self.engine)
        try:
            return store.rows(statement)
        finally:
            store.close()

    def stored_events(self):
        """Return how often each event is in the table."""
        found = self.rows("SELECT event_id, count() FROM agent_events GROUP BY event_id")
        return Counter({event_id: int(times) for event_id, times in found})

    def settle(self, *, kinds=("events",), timeout=120):
        """Wait until no member has anything that is not in the store."""
        wait_until(
            lambda: all(
                each.metric("tracereel_records_pending", kind=kind) == 0
                for each in self.running()
                for kind in kinds
            ),
            timeout=timeout,
            message="everything is relayed and delivered",
        )


class GroupOracles:
    """An oracle for each member; it sends again through the others, also what was acknowledged."""

    def __init__(self, group, run_id, seed, *, names=None):
        urls = [group[name].url for name in names or group.collectors]
        self._oracles = [
            Oracle(
                ",".join([*urls[at:], *urls[:at]]), f"{run_id}-{at}", seed + at, kinds=("again",)
            )
            for at in range(len(urls))
        ]

    @property
    def count(self):
        return sum(each.count for each in self._oracles)

    def finish(self):
        """Let all finish their current batch; return 0 if all were well."""
        return max(each.finish() for each in self._oracles)

    def acknowledged(self):
        """Return the ids of the acknowledged events."""
        found = Counter()
        for each in self._oracles:
            for ids in each.acknowledged.values():
                found.update(ids)
        return found
