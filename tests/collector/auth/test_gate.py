"""Access gate: 401, 403 and 429 responses, tenant from the key, reload of changed keys."""

import json
import os
import resource
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager

import pytest
from prometheus_client import CollectorRegistry

from tests.support.waiting import wait_until
from tracereel_collector.auth import keystore
from tracereel_collector.auth.gate import AccessGate
from tracereel_collector.auth.keys import KeyScope
from tracereel_collector.auth.keystore import KeyStore, KeysUnreadableError
from tracereel_collector.auth.limits import RateLimitedError
from tracereel_collector.config import Settings
from tracereel_collector.errors import (
    BadRequestError,
    ForbiddenError,
    StartupError,
    UnauthorizedError,
)


class World:
    """Gate on a data directory, with helpers that create keys."""

    def __init__(self, folder, *, static="", origins="", **settings):
        self.folder = folder
        self.keys = KeyStore.of(folder)
        self.registry = CollectorRegistry()
        self.gate = AccessGate(
            Settings(data_dir=folder, api_keys=static, cors_origins=origins, **settings),
            self.registry,
        )

    def key(self, tenant="acme", scopes=("write", "read")):
        return self.keys.create(tenant=tenant, scopes=frozenset(map(KeyScope, scopes)), by="test")

    def admit(self, key=None, scope=KeyScope.READ, peer="192.0.2.1", query="", **headers):
        if key:
            headers["x-api-key"] = key
        headers.setdefault("host", "127.0.0.1:4318")
        return self.gate.admit(headers, scope=scope, peer=peer, query=query)

    def lost_audit_lines(self):
        return self.registry.get_sample_value(
            "tracereel_audit_lines_lost_total", {"reason": "unwritable"}
        )

    def refused(self, reason):
        return self.registry.get_sample_value("tracereel_access_refused_total", {"reason": reason})


@pytest.fixture
def world(tmp_path):
    made = []

    def make(*, folder=tmp_path, **options):
        made.append(World(folder, **options))
        return made[-1]

    yield make
    for each in made:
        each.gate.close()


def test_without_keys_loopback_may_read_and_write_but_not_administer(world):
    here = world()
    here.gate.start()

    assert here.admit().tenant == "default"
    assert here.admit(scope=KeyScope.WRITE).key_id == ""
    with pytest.raises(ForbiddenError, match="admin is needed") as refused:
        here.admit(scope=KeyScope.ADMIN)
    assert "--local-admin" in refused.value.hint
    assert "keys create" in refused.value.hint
    assert here.refused("scope") == 1


def test_local_admin_holds_until_the_first_key_is_made(world):
    here = world(local_admin="on")
    here.gate.start()
    assert here.admit(scope=KeyScope.ADMIN).key_id == ""

    here.key()
    wait_until(lambda: not here.gate._ring.open, timeout=2)
    with pytest.raises(UnauthorizedError):
        here.admit(scope=KeyScope.ADMIN)


def test_tenant_and_scopes_come_from_the_key(world):
    here = world(static="old:hunter2-and-19-others")
    writer, _ = here.key(scopes=("write",))
    admin, _ = here.key("other", scopes=("admin",))
    here.gate.start()

    assert here.admit(writer, KeyScope.WRITE).tenant == "acme"
    assert here.admit(admin, KeyScope.ADMIN).tenant == "other"
    assert here.admit("hunter2-and-19-others").tenant == "old"
    for key, scope in (
        (writer, KeyScope.READ),
        (admin, KeyScope.WRITE),
        ("hunter2-and-19-others", KeyScope.ADMIN),
    ):
        with pytest.raises(ForbiddenError, match=f"{scope.value} is needed"):
            here.admit(key, scope)
    assert here.refused("scope") == 3


def test_missing_unknown_expired_and_revoked_keys_are_401_and_counted_apart(world):
    here = world()
    revoked, key = here.key()
    here.keys.revoke(key.id, by="test")
    here.gate.start()

    for given in (None, "nonsense", revoked):
        with pytest.raises(UnauthorizedError):
            here.admit(given)
    assert [here.refused(f"{each}_key") for each in ("missing", "unknown", "revoked")] == [1, 1, 1]


def test_key_changes_take_effect_within_a_second(world):
    here = world()
    here.gate.start()
    assert here.admit().tenant == "default"

    secret, key = here.key()
    wait_until(lambda: not here.gate._ring.open, timeout=2)
    another, _ = here.key("other")
    assert here.admit(another).tenant == "other"  # at once: a new key is not a guess
    with pytest.raises(UnauthorizedError):
        here.admit()
    assert here.admit(secret).key_id == key.id

    here.keys.revoke(key.id, by="test")
    wait_until(lambda: here.gate._ring.stored[key.id].revoked_unix, timeout=2)
    with pytest.raises(UnauthorizedError, match="revoked"):
        here.admit(secret)


def test_a_new_key_is_admitted_while_another_thread_reads_the_keys(world, monkeypatch):
    here = world()
    here.key()
    here.gate.check()
    secret, _ = here.key()
    store = here.gate.keys
    list_keys, is_reading, may_go_on = store.list, threading.Event(), threading.Event()

    def list_slowly():
        found = list_keys()
        is_reading.set()
        may_go_on.wait(30)
        return found

    monkeypatch.setattr(store, "list", list_slowly)
    with ThreadPoolExecutor(2) as threads:
        refreshed = threads.submit(here.gate.refresh)
        assert is_reading.wait(30)
        admitted = threads.submit(here.admit, secret)
        wait([admitted], timeout=1)  # either refused at once, or waiting for the refresh
        may_go_on.set()
        refreshed.result(30)
        assert admitted.result(30).tenant == "acme"


@contextmanager
def no_file_can_be_opened():
    """Lower the limit of open files to the descriptors in use."""
    lowest_free = os.dup(0)
    os.close(lowest_free)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_revocation_that_could_not_be_read_at_first_is_read_by_the_next_refresh(world):
    here = world()
    secret, key = here.key()
    here.gate.check()
    assert here.admit(secret).key_id == key.id

    here.keys.revoke(key.id, by="test")
    with no_file_can_be_opened(), pytest.raises(KeysUnreadableError):
        here.gate.refresh()
    assert here.admit(secret).key_id == key.id

    here.gate.refresh()
    with pytest.raises(UnauthorizedError, match="revoked"):
        here.admit(secret)


def test_the_thread_survives_a_folder_that_cannot_be_read(world, tmp_path):
    folder, away = tmp_path / "data", tmp_path / "away"
    here = world(folder=folder)
    secret, key = here.key()
    here.gate.start()
    folder.rename(away)
    folder.write_text("a file where the folder should be")
    here.admit(secret, peer="192.0.2.1")
    wait_until(lambda: here.lost_audit_lines() == 1, timeout=10)
    here.admit(secret, peer="192.0.2.2")
    # The second is lost in a round that began with a failed refresh.
    wait_until(lambda: here.lost_audit_lines() == 2, timeout=10)

    folder.unlink()
    away.rename(folder)
    here.keys.revoke(key.id, by="test")
    wait_until(lambda: here.gate._ring.stored[key.id].revoked_unix, timeout=10)


def test_the_thread_survives_a_damaged_row(world, tmp_path):
    here = world()
    secret, key = here.key()
    here.gate.start()
    written = tmp_path / "audit" / "audit.ndjson"
    with closing(sqlite3.connect(tmp_path / "keys.sqlite", isolation_level=None)) as file:
        file.execute("UPDATE keys SET scopes=x'00'")
        here.admit(secret, peer="192.0.2.1")
        wait_until(lambda: "192.0.2.1" in written.read_text(), timeout=10)
        here.admit(secret, peer="192.0.2.2")  # written by a round that began with a failed refresh
        wait_until(lambda: "192.0.2.2" in written.read_text(), timeout=10)
        file.execute("UPDATE keys SET scopes='read'")
    here.keys.revoke(key.id, by="test")
    wait_until(lambda: here.gate._ring.stored[key.id].revoked_unix, timeout=10)


def test_missing_key_file_refuses_all_requests(world, tmp_path):
    here = world()
    secret, _ = here.key()
    here.gate.start()
    (tmp_path / "keys.sqlite").unlink()
    wait_until(lambda: not here.gate._ring.stored, timeout=2)

    for given in (None, secret):
        with pytest.raises(UnauthorizedError):
            here.admit(given)


def test_public_address_requires_a_valid_key(world):
    here = world(host="0.0.0.0")
    with pytest.raises(StartupError, match=r"refusing to listen on 0\.0\.0\.0 without API keys"):
        here.gate.start()
    _, key = here.key()
    here.keys.revoke(key.id, by="test")
    with pytest.raises(StartupError, match="without API keys"):
        here.gate.start()
    here.key()
    here.gate.start()


def test_unreadable_keys_are_a_startup_error(world, tmp_path):
    (tmp_path / "keys.sqlite").write_bytes(b"nonsense" * 500)

    with pytest.raises(StartupError, match="cannot be read"):
        world().gate.start()


@pytest.mark.parametrize("name", ["x-tenant", "x-tenant-id", "x-scope-orgid", "tenant"])
def test_tenant_header_must_match_the_key(world, name):
    here = world(static="acme:hunter2-and-19-others")
    here.gate.start()

    assert here.admit("hunter2-and-19-others", **{name: "acme"}).tenant == "acme"
    assert here.admit("hunter2-and-19-others", **{name: ""}).tenant == "acme"
    with pytest.raises(ForbiddenError, match=f"header {name}: 'other' is another tenant"):
        here.admit("hunter2-and-19-others", **{name: "other"})
    assert here.refused("tenant") == 1


def test_tenant_query_parameter_must_match_the_key(world):
    here = world(static="acme:hunter2-and-19-others")
    here.gate.start()

    assert here.admit("hunter2-and-19-others", query="tenant=acme&x=tenant").tenant == "acme"
    for query in ("tenant=other", "a=1&tenant=acme&tenant=other", "%74enant=other", "tenant=%61"):
        with pytest.raises(ForbiddenError, match="query tenant"):
            here.admit("hunter2-and-19-others", query=query)


def test_key_guessing_gets_429_without_affecting_valid_keys(world):
    here = world()
    secret, _ = here.key()
    here.gate.start()
    here.admit(secret, peer="192.0.2.9")
    outcomes = []
    for number in range(50):
        try:
            here.admit(f"guess{number}", peer="192.0.2.9")
        except (UnauthorizedError, RateLimitedError) as error:
            outcomes.append(error.status)

    assert set(outcomes) == {401, 429}
    assert outcomes.count(401) < 10
    assert here.refused("too_many_tries") == outcomes.count(429)
    assert here.admit(secret, peer="192.0.2.9").tenant == "acme"
    assert here.admit(secret, peer="192.0.2.10").tenant == "acme"


def test_a_key_over_its_rate_waits_and_reading_does_not(world):
    here = world(static="acme:hunter2-and-19-others", rate_records=1)
    here.gate.start()
    here.gate.charge(here.admit("hunter2-and-19-others", KeyScope.WRITE), records=100)

    with pytest.raises(RateLimitedError, match="more than 1 records a second"):
        here.admit("hunter2-and-19-others", KeyScope.WRITE)
    assert here.admit("hunter2-and-19-others", KeyScope.READ).tenant == "acme"
    assert here.refused("rate") == 1


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://127.0.0.1:4318", True),
        ("https://app.example", True),
        ("https://evil.example", False),
        ("http://127.0.0.1:9999", False),
        ("null", False),
    ],
)
def test_cross_origin_page_is_refused(world, origin, allowed):
    here = world(origins="https://app.example/")
    here.gate.start()

    if allowed:
        assert here.admit(origin=origin).tenant == "default"
    else:
        with pytest.raises(ForbiddenError, match="may not use this collector"):
            here.admit(origin=origin)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none ", ""])
def test_a_request_of_another_site_without_an_origin_is_refused(world, site):
    """An image tag sends no `Origin`, so even `*` does not match it."""
    key = {"static": "acme:hunter2-and-19-others"}
    for here in (
        world(**key),
        world(origins="https://app.example", **key),
        world(origins="*", **key),
    ):
        here.gate.start()
        for given in (None, "hunter2-and-19-others", "wrong"):
            with pytest.raises(ForbiddenError, match="another site may not use this collector"):
                here.admit(given, **{"sec-fetch-site": site})
        assert here.refused("origin") == 3
        assert here.refused("unknown_key") is None, "another site must not use up a user's tries"


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_same_origin_and_direct_requests_are_allowed(world, site):
    here = world()
    here.gate.start()

    assert here.admit(**{"sec-fetch-site": site}).tenant == "default"


def test_a_configured_origin_is_answered_from_another_site(world):
    here = world(origins="https://app.example")
    here.gate.start()
    cross = {"sec-fetch-site": "cross-site"}

    assert here.admit(origin="https://app.example", **cross).tenant == "default"
    for other in ("https://evil.example", "null", "http://127.0.0.1:4318"):
        with pytest.raises(ForbiddenError, match="may not use this collector"):
            here.admit(origin=other, **cross)


def test_public_url_is_the_own_origin_behind_a_proxy(world):
    here = world(
        static="acme:hunter2-and-19-others",
        public_url="https://Traces.example:443/",
    )
    here.gate.start()
    key = "hunter2-and-19-others"

    assert here.admit(key, origin="https://traces.example").tenant == "acme"
    for other in ("http://traces.example", "https://traces.example:8443", "https://evil.example"):
        with pytest.raises(ForbiddenError, match="may not use this collector"):
            here.admit(key, origin=other, host="traces.example")


def test_foreign_host_header_is_refused_without_keys(world):
    here = world()
    here.gate.start()

    for host in ("localhost:4318", "127.0.0.1", "[::1]:4318", "box", "a.localhost", "10.0.0.7:1"):
        assert here.admit(host=host).tenant == "default"
    with pytest.raises(ForbiddenError, match=r"evil\.example"):
        here.admit(host="evil.example:4318")


def test_wildcard_origin_requires_keys(world):
    with pytest.raises(StartupError, match="every web page could read all"):
        world(origins="*").gate.start()
    here = world(origins="*", static="acme:hunter2-and-19-others")
    here.gate.start()
    assert here.admit("hunter2-and-19-others", origin="https://anywhere.example").tenant == "acme"


def test_audit_log_names_actor_and_action_without_keys(world, tmp_path):
    here = world()
    secret, key = here.key()
    here.gate.start()
    here.admit(secret, peer="192.0.2.1")
    with pytest.raises(UnauthorizedError):
        here.admit("trk_guessed", peer="192.0.2.2")
    with pytest.raises(ForbiddenError):
        here.admit(secret, KeyScope.ADMIN)
    here.keys.revoke(key.id, by="test")
    here.gate.close()

    text = (tmp_path / "audit" / "audit.ndjson").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert secret not in text
    assert "guessed" not in text
    assert {(line["event"], line.get("reason"), line.get("key")) for line in lines} == {
        ("key.created", None, key.id),
        ("key.used", None, key.id),
        ("request.refused", "unknown_key", None),
        ("request.refused", "scope", key.id),
        ("key.revoked", None, key.id),
    }


def test_gate_detects_several_tenants_with_valid_keys(world):
    here = world()
    here.gate.start()
    assert not here.gate.has_several_tenants

    here.key(tenant="acme")
    here.key(tenant="acme")
    here.gate.refresh()
    assert not here.gate.has_several_tenants

    _, other = here.key(tenant="other")
    here.gate.refresh()
    assert here.gate.has_several_tenants

    here.keys.revoke(other.id, by="test")
    here.gate.refresh()
    assert not here.gate.has_several_tenants


def test_static_and_stored_keys_count_as_tenants_alike(world):
    here = world(static="acme:a-long-enough-static-key")
    here.key(tenant="other")
    here.gate.start()

    assert here.gate.has_several_tenants


def test_keys_of_one_tenant_leave_room_for_others(world, monkeypatch):
    monkeypatch.setattr(keystore, "MAX_TENANT_KEYS", 2)
    here = world()
    here.key(tenant="acme")
    here.key(tenant="acme")

    with pytest.raises(BadRequestError, match="the tenant has 2 keys already"):
        here.key(tenant="acme")
    here.key(tenant="other")
