"""Alerts to a webhook: told once when they begin and once when they cease, under the names of the rules."""

import re
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry

from tests.support.webhook_sink import WebhookSink
from tracereel_collector.alerts.conditions import CONDITIONS
from tracereel_collector.alerts.watch import Watcher
from tracereel_collector.alerts.webhook import Webhook
from tracereel_collector.errors import StartupError, StoreUnavailableError
from tracereel_collector.model import AgentHealth, Kind, Quarantined, Spending
from tracereel_collector.queue import DurableQueue, QueueLimits
from tracereel_collector.telemetry import alerts_sent

RULES = Path(__file__).parents[3] / "dashboards" / "prometheus" / "rules" / "alerts.yml"
NS = 1_000_000_000
SECONDS = {"s": 1, "m": 60, "h": 3600}


class Lately:
    """What the store would say of agents."""

    def __init__(self):
        self.agents, self.costs, self.away = [], [], False

    def health(self):
        if self.away:
            raise StoreUnavailableError("the store is away")
        return self.agents

    def spending(self):
        return self.costs


class Site:
    """A real queue and a real webhook, with a clock and a disk to play with."""

    def __init__(self, folder, sink):
        self.clock, self.free = 1_000_000.0, 100_000
        limits = QueueLimits(
            commit_bytes=1 << 20, max_pending_bytes=1_000, retain_seconds=0, min_free_bytes=1_000
        )
        self.queue = DurableQueue(
            folder / "queue.sqlite",
            limits,
            now_unix_nano=lambda: int(self.clock * NS),
            free_bytes=lambda: self.free,
        )
        self.lately = Lately()
        self.registry = CollectorRegistry()
        self.watcher = Watcher(
            self.queue,
            self.lately,
            Webhook(sink.url),
            every_seconds=3600,
            sent=alerts_sent(self.registry),
            now=lambda: self.clock,
        )

    def look(self, after=0.0):
        self.clock += after
        self.queue._free._looked_at = float("-inf")  # the disk is asked four times a second
        self.watcher.look()

    def sent(self, outcome):
        return self.registry.get_sample_value(
            "tracereel_alert_notifications_total", {"outcome": outcome}
        )


@pytest.fixture
def sink():
    with WebhookSink() as running:
        yield running


@pytest.fixture
def site(tmp_path, sink):
    made = Site(tmp_path, sink)
    yield made
    made.queue.close()


def names(alerts):
    return [alert["labels"]["alertname"] for alert in alerts]


def agent(**changes):
    return AgentHealth(
        **{
            "tenant": "acme",
            "agent": "geo",
            "ended": 100,
            "failed": 0,
            "retries": 0,
            "fallbacks": 0,
            "confidence": 0.9,
            **changes,
        }
    )


def test_what_is_well_is_not_told(site, sink):
    site.lately.agents = [agent(), agent(agent="rare", ended=2, failed=2)]
    site.lately.costs = [Spending(tenant="acme", usd_per_hour=0.5, usd_per_hour_of_day=0.01)]

    site.look()
    site.look(after=900)

    assert sink.messages == []


def test_a_disk_that_fills_up_is_told_after_its_time_and_again_when_it_is_well(site, sink):
    site.free = 3_000
    site.look()
    site.look(after=299)
    assert sink.messages == []

    site.look(after=2)
    site.look(after=60)
    (alert,) = sink.alerts()
    assert sink.messages[0]["status"] == "firing"
    assert alert["labels"] == {"alertname": "DiskPressure", "severity": "critical"}
    assert alert["annotations"] == {
        "summary": "The disk is nearly full",
        "description": "3, below the limit of 4.",
        "runbook": "dashboards/RUNBOOK.md#diskpressure",
    }
    assert alert["startsAt"] == "1970-01-12T13:46:40Z"

    site.free = 100_000
    site.look(after=15)
    site.look(after=15)
    (resolved,) = sink.alerts("resolved")
    assert resolved["labels"] == alert["labels"]
    assert resolved["endsAt"] == "1970-01-12T13:52:56Z"
    assert len(sink.messages) == 2


def test_a_full_queue_and_a_store_that_is_behind_are_told(site, sink, body):
    site.queue.append(body(size=800, received=site.clock)).result()

    site.look()
    site.look(after=61)
    site.look(after=301)

    assert sorted(names(sink.alerts("firing"))) == ["QueueFilling", "StoreLagging"]


def test_what_is_quarantined_or_damaged_is_told_at_once(site, sink, body):
    site.look()
    site.queue.append(body(size=10, received=site.clock)).result()
    batch = site.queue.next_batch(Kind.EVENTS, max_records=10, max_bytes=1000)
    (held,) = site.queue.bodies_of(batch)
    refused = Quarantined(
        kind=Kind.EVENTS,
        tenant="acme",
        sequence_number=held.first_sequence_number,
        records=1,
        reason="no",
        data=b"x",
        received_unix_nano=held.received_unix_nano,
    )
    site.queue.done(batch, stored=0, quarantined=[refused])

    site.look(after=15)

    (alert,) = sink.alerts()
    assert alert["labels"]["kind"] == "events"
    assert alert["annotations"]["summary"] == "The store refuses events"
    site.look(after=901)
    assert names(sink.alerts("resolved")) == ["RecordsQuarantined"]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("AgentErrorRateHigh", {"failed": 20}),
        ("AgentRetryStorm", {"retries": 90}),
        ("AgentFallbackSurge", {"fallbacks": 30}),
        ("AgentConfidenceLow", {"confidence": 0.4}),
    ],
)
def test_an_agent_that_is_unwell_is_told_by_name_and_tenant(site, sink, name, changes):
    site.lately.agents = [agent(**changes), agent(agent="well")]

    site.look()
    site.look(after=CONDITIONS[name].seconds)

    (alert,) = sink.alerts()
    assert alert["labels"] == {
        "alertname": name,
        "severity": "warning",
        "agent_name": "geo",
        "tenant": "acme",
    }
    assert "geo" in alert["annotations"]["summary"]


def test_a_burst_of_cost_is_told(site, sink):
    site.lately.costs = [Spending(tenant="acme", usd_per_hour=12.0, usd_per_hour_of_day=2.0)]

    site.look()
    site.look(after=600)

    (alert,) = sink.alerts()
    assert alert["labels"]["alertname"] == "CostBurst"
    assert alert["annotations"]["description"] == "6, above the limit of 3."


def test_what_the_address_does_not_take_is_told_again(site, sink):
    sink.status = 503
    site.free = 3_000
    site.look()
    site.look(after=300)
    assert (sink.messages, site.sent("failed")) == ([], 1)

    sink.status = 200
    site.look(after=15)
    assert names(sink.alerts()) == ["DiskPressure"]
    assert site.sent("sent") == 1


def test_a_store_that_is_away_does_not_make_agents_well(site, sink):
    site.lately.agents = [agent(failed=20)]
    site.look()
    site.look(after=300)
    site.lately.away = True
    site.look(after=15)
    assert names(sink.alerts("resolved")) == []

    site.lately.away, site.lately.agents = False, [agent()]
    site.look(after=15)
    assert names(sink.alerts("resolved")) == ["AgentErrorRateHigh"]


@pytest.mark.parametrize("name", sorted(CONDITIONS))
def test_names_limits_and_times_are_those_of_the_rules(name):
    rules = {
        rule["alert"]: rule
        for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"]
        for rule in group["rules"]
    }
    rule, condition = rules[name], CONDITIONS[name]

    sign, limit = re.search(r" ([<>]) ([\d.]+)", rule["expr"]).groups()
    number, unit = re.fullmatch(r"(\d+)([smh])", rule.get("for", "0s")).groups()
    assert (sign == "<", float(limit)) == (condition.below, condition.limit)
    assert int(number) * SECONDS[unit] == condition.seconds
    assert rule["labels"]["severity"] == condition.severity


@pytest.mark.parametrize("url", ["ftp://x/y", "hook", "http://"])
def test_an_address_that_is_none_is_refused_without_being_shown(url):
    with pytest.raises(StartupError, match="TRACEREEL_ALERT_WEBHOOK"):
        Webhook(url)
