"""Collector alerts on a real store, sent by a running collector."""

import clickhouse_connect
import pytest

from tests.support.waiting import wait_until
from tracereel_collector.query.agents import Agents
from tracereel_collector.store.clickhouse import ClickHouseStore, StoreAddress


@pytest.fixture(scope="module")
def address(stack):
    host, port = stack.ask("/readyz").json()["store"]["address"].split(":")
    secret = (stack.collector.data_dir / "store" / "engine.secret").read_text().strip()
    return StoreAddress(
        host=host, port=int(port), username="tracereel", password=secret, database="tracereel"
    )


def test_agents_and_their_cost_are_read_from_the_store(address):
    store = ClickHouseStore(address, query_seconds=20, query_memory_bytes=1 << 30)
    try:
        lately = Agents(store)

        def seen():
            found = {each.agent: each for each in lately.health()}
            has_failed = "strict_agent" in found and found["strict_agent"].failed
            return found if has_failed else None

        agents = wait_until(seen, timeout=60)
        (spending,) = lately.spending()
    finally:
        store.close()

    assert agents["strict_agent"].ended >= agents["strict_agent"].failed > 0
    assert agents["strict_agent"].confidence is None
    assert agents["research_agent"].retries > 0
    assert agents["research_agent"].fallbacks > 0
    assert 0 < agents["parsing_agent"].confidence <= 1
    assert {each.tenant for each in agents.values()} == {"default"}
    assert spending.usd_per_hour > 0
    assert spending.usd_per_hour_of_day > 0


def test_running_collector_sends_webhook_alerts(stack, address):
    """A record that the store refuses triggers an alert within seconds."""
    client = clickhouse_connect.get_client(
        host=address.host, port=address.port, username="tracereel",
        password=address.password, database="tracereel",
    )  # fmt: skip
    try:
        client.command(
            "ALTER TABLE agent_events ADD CONSTRAINT harmless CHECK event_id NOT LIKE '%poison%'"
        )
    finally:
        client.close()
    poison = {"event_id": "poison", "event_type": "custom.x", "trace_id": "trc-poison"}
    poison["timestamp"] = "2026-01-23T10:00:00Z"
    stack.collector.post_events([poison], wait=False, headers={"x-api-key": stack.key})

    alert = wait_until(lambda: stack.webhook.alerts("firing"), timeout=40)[0]

    assert alert["labels"] == {
        "alertname": "RecordsQuarantined",
        "severity": "warning",
        "kind": "events",
    }
