"""Webhook alerts: sent once when they fire and once when they resolve, under the rules' names."""

import re
from pathlib import Path

import pytest
import structlog
import yaml
from prometheus_client import CollectorRegistry

from tests.support.raw_answers import answering, slowly
from tests.support.webhook_sink import WebhookSink
from tracereel_collector.errors import StartupError, StoreUnavailableError
from tracereel_collector.model import AgentHealth, Kind, Quarantined, Spending, UnpricedCalls
from tracereel_collector.ops.alerts.conditions import CONDITIONS
from tracereel_collector.ops.alerts.watch import Watcher
from tracereel_collector.ops.alerts.webhook import Webhook
from tracereel_collector.queue import DurableQueue, QueueLimits
from tracereel_collector.telemetry import AlertMetrics

RULES = Path(__file__).parents[3] / "dashboards" / "prometheus" / "rules" / "alerts.yml"
NS = 1_000_000_000
SECONDS = {"s": 1, "m": 60, "h": 3600}


class Lately:
    """Fake store statistics of agents."""

    def __init__(self):
        self.agents, self.costs, self.away = [], [], False
        self.without_price = []

    def health(self):
        if self.away:
            raise StoreUnavailableError("the store is away")
        return self.agents

    def spending(self):
        return self.costs

    def unpriced(self):
        return self.without_price


class Site:
    """Real queue and webhook with a fake clock and disk."""

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
            sent=AlertMetrics.register(self.registry).sent,
            now=lambda: self.clock,
            steady=lambda: self.clock,
        )

    def look(self, after=0.0):
        self.clock += after
        self.queue._admission._disk_looked_at = float(
            "-inf"
        )  # free disk is sampled four times a second
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


def test_no_alert_while_conditions_are_healthy(site, sink):
    site.lately.agents = [agent(), agent(agent="rare", ended=2, failed=2)]
    site.lately.costs = [Spending(tenant="acme", usd_per_hour=0.5, usd_per_hour_of_day=0.01)]

    site.look()
    site.look(after=900)

    assert sink.messages == []


def test_disk_pressure_alert_fires_after_its_delay_and_resolves(site, sink):
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


def test_queue_filling_and_store_lagging_alerts_fire(site, sink, body):
    site.queue.append(body(size=800, received=site.clock)).result()

    site.look()
    site.look(after=61)
    site.look(after=301)

    assert sorted(names(sink.alerts("firing"))) == ["QueueFilling", "StoreLagging"]


def test_quarantine_alert_fires_immediately(site, sink, body):
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
def test_agent_alert_is_labelled_with_agent_and_tenant(site, sink, name, changes):
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


def test_cost_burst_alert_fires(site, sink):
    site.lately.costs = [Spending(tenant="acme", usd_per_hour=12.0, usd_per_hour_of_day=2.0)]

    site.look()
    site.look(after=600)

    (alert,) = sink.alerts()
    assert alert["labels"]["alertname"] == "CostBurst"
    assert alert["annotations"]["description"] == "6, above the limit of 3."


def test_models_without_a_price_have_an_alert_that_ends_with_the_price(site, sink):
    site.lately.without_price = [UnpricedCalls(tenant="acme", calls=3)]
    site.look()
    site.look(after=CONDITIONS["ModelsUnpriced"].seconds)

    (alert,) = sink.alerts()
    assert alert["labels"] == {
        "alertname": "ModelsUnpriced",
        "severity": "warning",
        "tenant": "acme",
    }
    site.lately.without_price = []
    site.look(after=15)
    assert names(sink.alerts("resolved")) == ["ModelsUnpriced"]


def test_failed_webhook_delivery_is_retried(site, sink):
    sink.status = 503
    site.free = 3_000
    site.look()
    site.look(after=300)
    assert (sink.messages, site.sent("failed")) == ([], 1)

    sink.status = 200
    site.look(after=15)
    assert names(sink.alerts()) == ["DiskPressure"]
    assert site.sent("sent") == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_a_failure_and_is_not_followed(site, sink, status):
    sink.status, sink.location = status, "/elsewhere"
    site.free = 3_000
    site.look()
    site.look(after=300)

    assert sink.asked == [("POST", "/hook")]
    assert (site.sent("failed"), site.sent("sent")) == (1, None)

    sink.status, sink.location = 200, ""
    site.look(after=15)
    assert names(sink.alerts()) == ["DiskPressure"]


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


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://x/secret", "secret", "http://", "http://x:secret/", "http://me:secret@x/"),
        *("http://x/a secret", "http://x/sécret", "http://x/?secret=a\x7f", "http://[secret"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_being_shown(url):
    with pytest.raises(StartupError, match="TRACEREEL_ALERT_WEBHOOK") as caught:
        Webhook(url)
    assert "secret" not in str(caught.value)


def test_query_of_the_address_is_sent_and_not_logged(sink):
    sink.status = 500
    with structlog.testing.capture_logs() as logs:
        assert not Webhook(f"{sink.url}?token=secret")({"alerts": []})

    assert sink.asked == [("POST", "/hook?token=secret")]
    assert logs == [
        {
            "event": "alert_not_taken",
            "host": "127.0.0.1",
            "reason": "HTTP 500",
            "log_level": "warning",
        }
    ]


def test_receiver_that_never_finishes_its_headers_is_a_failure(monkeypatch):
    monkeypatch.setattr("tracereel_collector.ops.alerts.webhook.SECONDS", 0.3)
    with answering(slowly(b"HTTP/1.1 200 OK\r\nx-more: ")) as url:
        assert not Webhook(url)({"alerts": []})


def test_failing_agents_of_one_tenant_do_not_hide_what_else_is_wrong(site, sink):
    site.lately.agents = [agent(agent=f"agent-{number}", failed=90) for number in range(1_500)]
    site.look()
    site.lately.agents.append(agent(tenant="quiet", failed=90))
    site.free = 0
    for _ in range(3):
        site.look(after=3_600)

    tenants = {alert["labels"].get("tenant", "") for alert in sink.alerts()}
    assert tenants == {"", "acme", "quiet"}
