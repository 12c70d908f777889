"""Keys are rotated while senders are offline with full spools."""

import json
import os
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from tests.e2e.test_clock_set_back import rows
from tests.support.collector import http
from tests.support.conservation import conserved
from tests.support.keys import make_key
from tests.support.waiting import wait_until
from tracereel import config
from tracereel._export import destinations
from tracereel._export.leftovers import ship_leftovers
from tracereel._export.sender import Sender
from tracereel._export.shipper import settle
from tracereel._export.spool_reader import dead_emitters
from tracereel_collector.auth.keystore import KeyStore

ROTATIONS = 5
SPOOLS_PER_KEY = 20
EVENTS_PER_SPOOL = 30


def settings_of(collector, spool_dir, key):
    return config.load({}, endpoint=collector.url, api_key=key, spool_dir=str(spool_dir))


def leave(settings, name, count=EVENTS_PER_SPOOL):
    """Leave a spool as an ended process does; return the ids of its events."""
    spool = destinations.spool_of(settings, on_late_drop=lambda _reason: None)
    ids = [f"{name}-{number}" for number in range(count)]
    for event_id in ids:
        event = {
            "event_id": event_id,
            "event_type": "custom.left",
            "timestamp": "2026-01-23T10:00:00Z",
            "trace_id": f"trc-{name}",
        }
        assert spool.append(event, None, closes_run=False) is None
    spool.close(settled=-1)
    return ids


def send_without_noting_it(settings):
    """Deliver one spool and lose the response, as if the machine were switched off."""
    outbox = next(dead_emitters(settings.destination_dir))
    sender = Sender(settings)
    list(settle(sender, outbox.read().lines))
    sender.close()
    outbox.release()


def new_key(collector, tenant):
    """Return a key that the running collector accepts."""
    key = make_key(collector.data_dir, tenant=tenant)
    wait_until(lambda: status_of(collector, key) == 200, message="the key does not work yet")
    return key


def revoke(collector, key):
    KeyStore.of(collector.data_dir).revoke(key["id"], by="test")
    wait_until(lambda: status_of(collector, key) == 401, message="the key still works")


def status_of(collector, key):
    headers = {"x-api-key": key["key"]}
    return http("GET", f"{collector.url}/v1/identity", headers=headers).status


@pytest.fixture
def collector(new_collector, tmp_path):
    folder = tmp_path / "data"
    make_key(folder, tenant="setup")
    return new_collector(folder).start()


def stored(collector, tenant):
    """Return how often each event of a tenant is stored, in the table behind the view."""
    wait_until(lambda: collector.metric("tracereel_records_pending", kind="events") == 0)
    found = rows(collector, f"SELECT event_id FROM agent_events WHERE tenant = '{tenant}'")
    return Counter(event_id for (event_id,) in found)


@pytest.mark.e2e
def test_a_hundred_spools_of_rotated_keys_are_delivered_once(collector, tmp_path):
    spool_dir, expected = tmp_path / "spool", set()
    for rotation in range(ROTATIONS):
        key = new_key(collector, "acme")
        settings = settings_of(collector, spool_dir, key["key"])
        for number in range(SPOOLS_PER_KEY):
            expected.update(leave(settings, f"acme-{rotation}-{number}"))
        if rotation % 2:
            send_without_noting_it(settings)
        revoke(collector, key)
    foreign = new_key(collector, "bravo")
    leave(settings_of(collector, spool_dir, foreign["key"]), "bravo", 7)
    revoke(collector, foreign)

    new = settings_of(collector, spool_dir, new_key(collector, "acme")["key"])
    result = ship_leftovers(new, timeout=120)

    assert (result.delivered, result.spooled, result.dropped) == (len(expected), 0, 0)
    assert stored(collector, "acme") == dict.fromkeys(expected, 1)
    assert stored(collector, "bravo") == {}
    counts = conserved(collector)
    assert counts["duplicate"] == EVENTS_PER_SPOOL * (ROTATIONS // 2)
    # Bravo's events wait for one of bravo's keys.
    own = settings_of(collector, spool_dir, new_key(collector, "bravo")["key"])
    assert ship_leftovers(own, timeout=60).delivered == 7


@pytest.mark.e2e
def test_a_running_program_adopts_the_spool_of_a_revoked_key(collector, tmp_path):
    spool_dir = tmp_path / "spool"
    old = new_key(collector, "acme")
    expected = set(leave(settings_of(collector, spool_dir, old["key"]), "left"))
    revoke(collector, old)
    new = new_key(collector, "acme")["key"]
    program = textwrap.dedent(
        """
        import tracereel

        tracereel.configure(exit_timeout=60)
        tracereel.traced_agent("short")(lambda: None)()
        """
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "TRACEREEL_ENDPOINT": collector.url,
            "TRACEREEL_API_KEY": new,
            "TRACEREEL_SPOOL_DIR": str(spool_dir),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    found = stored(collector, "acme")
    assert {each: found[each] for each in expected} == dict.fromkeys(expected, 1)
    assert not list(spool_dir.rglob("*.ndjson"))


@pytest.mark.e2e
def test_the_spool_of_a_valid_key_is_left_to_that_key(collector, tmp_path):
    spool_dir = tmp_path / "spool"
    other = settings_of(collector, spool_dir, new_key(collector, "acme")["key"])
    leave(other, "apart", 3)

    mine = settings_of(collector, spool_dir, new_key(collector, "acme")["key"])

    assert ship_leftovers(mine, timeout=60).delivered == 0
    assert ship_leftovers(other, timeout=60).delivered == 3


@pytest.mark.e2e
def test_a_stranded_spool_is_named_and_delivered_by_hand(collector, tmp_path):
    """A key that the collector never saw: only a person can name the tenant."""
    spool_dir = tmp_path / "spool"
    lost = settings_of(collector, spool_dir, "a-static-key-of-long-ago-0123456789")
    expected = set(leave(lost, "lost", 4))
    key = new_key(collector, "acme")["key"]
    environ = {
        **os.environ,
        "TRACEREEL_ENDPOINT": collector.url,
        "TRACEREEL_API_KEY": key,
        "TRACEREEL_SPOOL_DIR": str(spool_dir),
    }

    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "tracereel", *words],
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    assert run("ship").stdout == "delivered 0, spooled 0, dropped 0\n"
    checks = json.loads(run("doctor", "--json").stdout)["checks"]
    (stranded,) = [check for check in checks if check["name"] == "spool, stranded"]
    assert "4 events" in stranded["detail"]
    assert f"--from {lost.destination_dir}" in stranded["advice"]
    done = run("ship", "--from", str(lost.destination_dir))

    assert done.stdout == "delivered 4, spooled 0, dropped 0\n", done.stderr
    assert stored(collector, "acme") == dict.fromkeys(expected, 1)


@pytest.mark.e2e
def test_identity_names_the_state_of_own_keys_only(collector):
    mine = new_key(collector, "acme")
    revoked = new_key(collector, "acme")
    foreign = new_key(collector, "bravo")
    revoke(collector, revoked)

    def state(key):
        answer = http(
            "GET",
            f"{collector.url}/v1/identity?key={destinations.fingerprint(key)}",
            headers={"x-api-key": mine["key"]},
        ).json()
        assert answer["tenant"] == "acme"
        return answer["key"]["state"]

    keys = (mine["key"], revoked["key"], foreign["key"], "never-seen", None)
    assert [state(key) for key in keys] == ["active", "revoked", "unknown", "unknown", "unknown"]
    bad = http("GET", f"{collector.url}/v1/identity?key=%25", headers={"x-api-key": mine["key"]})
    assert bad.status == 400
