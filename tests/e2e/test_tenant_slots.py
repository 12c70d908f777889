"""Each kind of slot: one tenant requests more than there are, another still gets one."""

from urllib.parse import quote

import pytest

from tests.e2e.test_noisy_neighbour import ENVIRON, HOUR_LONG, LARGE, SLOW_SQL, Quiet, event
from tests.support.collector import free_port
from tests.support.noise import Noise
from tests.support.two_tenants import Site
from tests.support.waiting import wait_until

WANTED = {
    "sql": (lambda made: made.streams("it", f"/clickhouse?query={quote(SLOW_SQL)}", 20), "do_sql"),
    "exports": (lambda made: made.streams("it", "/v1/export", 20), "do_export"),
    "playbacks": (
        lambda made: made.streams("it", f"/v1/replay/{HOUR_LONG}?stream=1&speed=1", 100),
        "do_play",
    ),
    "calls": (lambda made: made.calls("it", 100), "do_send_spans_by_grpc"),
    "bodies": (lambda made: made.bodies("it", 30, size=1_500_000), "do_send_a_large_body"),
}
"""Requests that exhaust each kind of slot, and the request of the other tenant."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(
        tmp_path_factory.mktemp("slots"),
        grpc_port=free_port(),
        arguments=("--workers", "1"),
        environ=ENVIRON,
    )
    for tenant in ("alpha", "bravo"):
        made.send(event("first"), event("last", timestamp="2026-01-23T11:00:00Z"), tenant=tenant)
    # A smaller export fits into the socket buffers and would hold no slot.
    for number in range(16):
        large = event(f"large-{number}", trace_id="large", payload={"text": "x" * LARGE})
        made.send(large, tenant="alpha")
    made.settle()
    yield made
    made.collector.stop()


@pytest.mark.parametrize("kind", WANTED)
def test_tenant_that_wants_every_slot_leaves_one_for_another(site, kind):
    take, act = WANTED[kind]
    with Noise(site, "alpha") as made:
        take(made)
        wait_until(lambda: made.held["it"].refused > 2, timeout=60, message="none was refused")
        getattr(Quiet(site, "bravo"), act)()
