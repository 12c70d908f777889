"""The gate: 401, 403 and 429 exactly, the tenant from the key alone, changes seen while it runs."""

import json

import pytest
from prometheus_client import CollectorRegistry

from tests.support.waiting import wait_until
from tracereel_collector.auth.administration import Administration
from tracereel_collector.auth.gate import Gate, GateSettings
from tracereel_collector.auth.keyring import parse_static
from tracereel_collector.auth.keys import Scope
from tracereel_collector.auth.limits import RateLimitedError, Rates
from tracereel_collector.auth.metrics import AccessMetrics
from tracereel_collector.auth.origins import parse_origins
from tracereel_collector.errors import ForbiddenError, StartupError, UnauthorizedError


class World:
    """A gate over a data directory, with keys made beside it."""

    def __init__(self, folder, *, host="127.0.0.1", static="", origins="", rates=None):
        self.folder = folder
        self.administration = Administration.of(folder)
        self.registry = CollectorRegistry()
        self.gate = Gate(
            GateSettings(
                host=host,
                static=parse_static(static),
                origins=parse_origins(origins),
                rates=rates or Rates(),
            ),
            keys=Administration.of(folder).keys,
            audit=Administration.of(folder).audit,
            metrics=AccessMetrics.register(self.registry),
        )

    def key(self, tenant="acme", scopes=("write", "read")):
        return self.administration.create(
            tenant=tenant, scopes=frozenset(map(Scope, scopes)), by="test"
        )

    def admit(self, key=None, scope=Scope.READ, peer="192.0.2.1", query="", **headers):
        if key:
            headers["x-api-key"] = key
        headers.setdefault("host", "127.0.0.1:4318")
        return self.gate.admit(headers, scope=scope, peer=peer, query=query)

    def refused(self, reason):
        return self.registry.get_sample_value("tracereel_access_refused_total", {"reason": reason})


@pytest.fixture
def world(tmp_path):
    made = []

    def make(**options):
        made.append(World(tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        each.gate.close()


def test_without_keys_loopback_is_open_for_everything(world):
    """But for keys: their routes want to see one."""
    here = world()
    here.gate.start()

    assert here.admit().tenant == "default"
    assert here.admit(scope=Scope.ADMIN).key_id == ""


def test_the_tenant_is_the_keys_and_scopes_are_exact(world):
    here = world(static="old:hunter2")
    writer, _ = here.key(scopes=("write",))
    admin, _ = here.key("other", scopes=("admin",))
    here.gate.start()

    assert here.admit(writer, Scope.WRITE).tenant == "acme"
    assert here.admit(admin, Scope.ADMIN).tenant == "other"
    assert here.admit("hunter2").tenant == "old"
    for key, scope in ((writer, Scope.READ), (admin, Scope.WRITE), ("hunter2", Scope.ADMIN)):
        with pytest.raises(ForbiddenError, match=f"{scope.value} is needed"):
            here.admit(key, scope)
    assert here.refused("scope") == 3


def test_missing_unknown_expired_and_revoked_keys_are_401_and_counted_apart(world):
    here = world()
    revoked, key = here.key()
    here.administration.revoke(key.id, by="test")
    here.gate.start()

    for given in (None, "nonsense", revoked):
        with pytest.raises(UnauthorizedError):
            here.admit(given)
    assert [here.refused(f"{each}_key") for each in ("missing", "unknown", "revoked")] == [1, 1, 1]


def test_keys_made_and_revoked_while_it_runs_are_known_within_a_second(world):
    here = world()
    here.gate.start()
    assert here.admit().tenant == "default"

    secret, key = here.key()
    wait_until(lambda: not here.gate._ring.open, timeout=2)
    another, _ = here.key("other")
    assert here.admit(another).tenant == "other"  # at once: a new key is no guess
    with pytest.raises(UnauthorizedError):
        here.admit()
    assert here.admit(secret).key_id == key.id

    here.administration.revoke(key.id, by="test")
    wait_until(lambda: here.gate._ring.stored[key.id].revoked_unix, timeout=2)
    with pytest.raises(UnauthorizedError, match="revoked"):
        here.admit(secret)


def test_a_file_of_keys_that_goes_away_closes_the_door(world, tmp_path):
    here = world()
    secret, _ = here.key()
    here.gate.start()
    (tmp_path / "keys.sqlite").unlink()
    wait_until(lambda: not here.gate._ring.stored, timeout=2)

    for given in (None, secret):
        with pytest.raises(UnauthorizedError):
            here.admit(given)


def test_a_public_address_needs_a_key_that_works(world):
    here = world(host="0.0.0.0")
    with pytest.raises(StartupError, match=r"refusing to listen on 0\.0\.0\.0 without API keys"):
        here.gate.start()
    _, key = here.key()
    here.administration.revoke(key.id, by="test")
    with pytest.raises(StartupError, match="without API keys"):
        here.gate.start()
    here.key()
    here.gate.start()


def test_keys_that_cannot_be_read_stop_the_start(world, tmp_path):
    (tmp_path / "keys.sqlite").write_bytes(b"nonsense" * 500)

    with pytest.raises(StartupError, match="cannot be read"):
        world().gate.start()


@pytest.mark.parametrize("name", ["x-tenant", "x-tenant-id", "x-scope-orgid", "tenant"])
def test_a_header_may_name_the_keys_tenant_and_no_other(world, name):
    here = world(static="acme:hunter2")
    here.gate.start()

    assert here.admit("hunter2", **{name: "acme"}).tenant == "acme"
    assert here.admit("hunter2", **{name: ""}).tenant == "acme"
    with pytest.raises(ForbiddenError, match=f"header {name}: 'other' is another tenant"):
        here.admit("hunter2", **{name: "other"})
    assert here.refused("tenant") == 1


def test_so_may_the_query(world):
    here = world(static="acme:hunter2")
    here.gate.start()

    assert here.admit("hunter2", query="tenant=acme&x=tenant").tenant == "acme"
    for query in ("tenant=other", "a=1&tenant=acme&tenant=other", "%74enant=other", "tenant=%61"):
        with pytest.raises(ForbiddenError, match="query tenant"):
            here.admit("hunter2", query=query)


def test_who_guesses_is_told_to_wait_and_others_go_on(world):
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
    here = world(static="acme:hunter2", rates=Rates(records=1))
    here.gate.start()
    here.gate.charge(here.admit("hunter2", Scope.WRITE), records=100)

    with pytest.raises(RateLimitedError, match="more than 1 records a second"):
        here.admit("hunter2", Scope.WRITE)
    assert here.admit("hunter2", Scope.READ).tenant == "acme"
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
def test_a_page_from_elsewhere_may_do_nothing(world, origin, allowed):
    here = world(origins="https://app.example/")
    here.gate.start()

    if allowed:
        assert here.admit(origin=origin).tenant == "default"
    else:
        with pytest.raises(ForbiddenError, match="may not use this collector"):
            here.admit(origin=origin)


def test_without_keys_a_name_that_somebody_else_owns_is_refused(world):
    here = world()
    here.gate.start()

    for host in ("localhost:4318", "127.0.0.1", "[::1]:4318", "box", "a.localhost", "10.0.0.7:1"):
        assert here.admit(host=host).tenant == "default"
    with pytest.raises(ForbiddenError, match=r"evil\.example"):
        here.admit(host="evil.example:4318")


def test_every_page_and_no_key_do_not_go_together(world):
    with pytest.raises(StartupError, match="every web page could read all"):
        world(origins="*").gate.start()
    here = world(origins="*", static="acme:hunter2")
    here.gate.start()
    assert here.admit("hunter2", origin="https://anywhere.example").tenant == "acme"


def test_the_audit_log_says_who_did_what_and_never_holds_a_key(world, tmp_path):
    here = world()
    secret, key = here.key()
    here.gate.start()
    here.admit(secret, peer="192.0.2.1")
    with pytest.raises(UnauthorizedError):
        here.admit("trk_guessed", peer="192.0.2.2")
    with pytest.raises(ForbiddenError):
        here.admit(secret, Scope.ADMIN)
    here.administration.revoke(key.id, by="test")
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
