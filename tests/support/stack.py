"""Stack for the dashboards: a collector, a program with agents, a Prometheus."""

import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.parse
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import grafana
from tests.support.collector import CollectorProcess, http
from tests.support.prometheus import Prometheus, tool
from tests.support.waiting import wait_until
from tests.support.webhook_sink import WebhookSink

KEY = "a-long-and-random-key-of-these-tests"
LOAD = Path(__file__).parent / "agent_load.py"


@dataclass
class Stack:
    """Running processes of the stack."""

    collector: CollectorProcess
    agents_port: int
    began: float
    webhook: WebhookSink | None = None
    prometheus: Prometheus | None = None
    key: str = KEY

    def ask(self, path):
        return http("GET", f"{self.collector.url}{path}", headers={"x-api-key": KEY})

    def rows(self, statement):
        """Send a query as the ClickHouse plugin does."""
        answer = http(
            "POST",
            f"{self.collector.url}/clickhouse?{urllib.parse.urlencode({'default_format': 'JSON'})}",
            statement.encode(),
            {"X-ClickHouse-User": "grafana", "X-ClickHouse-Key": KEY},
        )
        assert answer.status == 200, f"{answer.body.decode()}\n{statement}"
        return answer.json()["data"]

    def sql_rows(self, board, text, **values):
        """Return the rows of a panel's statement, with every variable at "All" by default."""
        for variable in grafana.BOARDS[board]["templating"]["list"]:
            name = variable["name"]
            if f"${{{name}:" not in text or name in values:
                continue
            if variable["type"] == "query":
                rows = self.rows(self.filled(variable["query"]["rawSql"], {}))
                found = [next(iter(row.values())) for row in rows]
                values[name] = found if variable["multi"] else found[:1]
            elif variable["type"] == "custom":
                values[name] = variable["query"].split(",")
            else:
                values[name] = [variable["query"]]
        return self.rows(self.filled(text, values))

    def filled(self, text, values):
        return grafana.sql(text, since=self.began, until=time.time() + 5, values=values)


@contextmanager
def running_stack(folder):
    """Run the stack under the load of the demo and of agents that retry, fall back and fail."""
    began = time.time() - 1
    webhook = WebhookSink().__enter__()
    collector = CollectorProcess(
        folder / "data",
        environ={
            "TRACEREEL_API_KEYS": f"default:{KEY}",
            # No listener there: forwarded records are dropped after a while, and counted.
            "TRACEREEL_FORWARD_TO": "http://127.0.0.1:9",
            "TRACEREEL_FORWARD_AGE_SECONDS": "1",
            "TRACEREEL_ALERT_WEBHOOK": webhook.url,
            "TRACEREEL_ALERT_SECONDS": "1",
        },
    ).start(wait=False)
    try:
        wait_until(lambda: collector.url, timeout=240, message="the collector does not start")
    except AssertionError:
        collector.kill()
        raise
    agents = subprocess.Popen(
        [sys.executable, str(LOAD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "COLLECTOR": collector.url,
            "KEY": KEY,
            "TRACEREEL_SPOOL_DIR": str(folder / "spool"),
        },
    )
    made = Stack(collector, int(agents.stdout.readline()), began, webhook)
    ended = threading.Event()
    nuisance = threading.Thread(target=_send_nonsense, args=(collector.url, ended))
    nuisance.start()
    try:
        if tool("prometheus"):
            (folder / "prometheus").mkdir()
            targets = {
                "tracereel-collector": collector.url.removeprefix("http://"),
                "tracereel-agents": f"127.0.0.1:{made.agents_port}",
            }
            made.prometheus = Prometheus(folder / "prometheus", targets)
        wait_until(
            lambda: (
                len(made.sql_rows("tracereel-runs", "SELECT 1 FROM agent_events LIMIT 50")) == 50
            ),
            timeout=40,
            message="no events in the store",
        )
        yield made
    finally:
        ended.set()
        nuisance.join()
        agents.stdin.close()
        agents.wait(timeout=20)
        agents.stdout.close()
        if made.prometheus:
            made.prometheus.stop()
        collector.stop()
        webhook.__exit__()


@contextmanager
def demo_stack(folder):
    """Run the collector with its own demo, as `make run` does, and a Prometheus."""
    began = time.time() - 1
    collector = CollectorProcess(
        folder / "data",
        environ={"TRACEREEL_API_KEYS": f"default:{KEY}"},
        arguments=("--demo",),
    ).start()
    with ExitStack() as left:
        left.callback(collector.stop)
        port = wait_until(lambda: _demo_port(collector), message="the demo serves no metrics")
        (folder / "prometheus").mkdir()
        targets = {
            "tracereel-collector": collector.url.removeprefix("http://"),
            "tracereel-agents": f"127.0.0.1:{port}",
        }
        prometheus = Prometheus(folder / "prometheus", targets)
        left.callback(prometheus.stop)
        yield Stack(collector, port, began, prometheus=prometheus)


def _demo_port(collector):
    found = re.search(r"metrics at http://127\.0\.0\.1:(\d+)", "\n".join(collector.output))
    return int(found.group(1)) if found else None


def _send_nonsense(url, ended):
    """Send requests that the collector refuses: an invalid event, and no key."""
    body = json.dumps([{"event_id": "x", "event_type": "no.such.type"}]).encode()
    while not ended.wait(0.3):
        http("POST", f"{url}/v1/events", body, {"x-api-key": KEY})
        http("POST", f"{url}/v1/events", body)
