"""API keys: shown once, hashed at rest, matched exactly, revoked permanently."""

import sqlite3
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracereel_collector.auth.keyring import Keyring, is_loopback, key_in, read_static_keys
from tracereel_collector.auth.keys import (
    KeyScope,
    digest_of,
    new_key,
    parse_expiry,
    parse_scopes,
)
from tracereel_collector.auth.keystore import KeyStore, KeysUnreadableError
from tracereel_collector.errors import BadRequestError, StartupError, UnknownResourceError

WRITE = frozenset({KeyScope.WRITE})


@pytest.fixture
def store(tmp_path):
    return KeyStore(tmp_path, now_unix=lambda: 1000.0)


def ring_of(store, static=""):
    return Keyring(tuple(read_static_keys(static).values()), {key.id: key for key in store.list()})


def test_key_is_stored_as_digest_in_a_private_file(store, tmp_path):
    secret, key = store.create(tenant="acme", scopes=WRITE, name="first", by="test")

    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert secret.encode() not in kept
    assert secret.rpartition("_")[2].encode() not in kept
    assert digest_of(secret) in kept
    assert stat.S_IMODE((tmp_path / "keys.sqlite").stat().st_mode) == 0o600
    assert "digest" not in store.document(key)


def test_a_key_is_found_with_its_tenant_and_scopes_and_no_other_is(store):
    secret, key = store.create(tenant="acme", scopes=WRITE, by="test")
    store.create(tenant="other", scopes=frozenset({KeyScope.READ}), by="test")
    ring = ring_of(store, "static-tenant:hunter2-and-19-others")

    found = ring.identify(secret)
    assert found == key
    assert (found.tenant, found.scopes, found.state(1000)) == ("acme", WRITE, "active")
    assert ring.identify("hunter2-and-19-others").tenant == "static-tenant"
    assert ring.identify(new_key()[0]) is None
    assert ring.identify(f"trk_{key.id}_{'A' * 43}") is None
    assert ring.identify("x" * 100_000) is None


@given(st.data())
def test_modified_key_is_not_accepted(data):
    secret, key_id = new_key()
    position = data.draw(st.integers(0, len(secret) - 1))
    other = data.draw(st.characters().filter(lambda each: each != secret[position]))
    changed = secret[:position] + other + secret[position + 1 :]
    ring = Keyring(tuple(read_static_keys(f"acme:{secret}").values()))

    assert ring.identify(secret) is not None
    assert ring.identify(changed) is None
    assert ring.identify(secret + other) is None
    assert key_id in secret


def test_a_revoked_or_expired_key_is_known_but_no_longer_good(store):
    short, _ = store.create(tenant="acme", scopes=WRITE, expires="500s", by="test")
    ended, key = store.create(tenant="acme", scopes=WRITE, by="test")
    assert store.revoke(key.id, by="test").revoked_unix == 1000
    assert store.revoke(key.id, by="test").revoked_unix == 1000
    ring = ring_of(store)

    assert ring.identify(short).state(1499) == "active"
    assert ring.identify(short).state(1500) == "expired"
    assert ring.identify(ended).state(1000) == "revoked"
    assert ring.active_tenants(1000) == {"acme"}
    assert not ring.active_tenants(1500)


def test_revoking_the_last_key_does_not_disable_authentication(store):
    assert ring_of(store).open
    _, key = store.create(tenant="acme", scopes=WRITE, by="test")
    store.revoke(key.id, by="test")

    assert not ring_of(store).open


def test_a_key_of_another_tenant_cannot_be_revoked_and_does_not_seem_to_exist(store):
    _, key = store.create(tenant="acme", scopes=WRITE, by="test")

    with pytest.raises(UnknownResourceError) as foreign:
        store.revoke(key.id, tenant="other", by="test")
    with pytest.raises(UnknownResourceError) as unknown:
        store.revoke("0" * 12, tenant="other", by="test")
    assert foreign.value.message.replace(key.id, "") == unknown.value.message.replace("0" * 12, "")
    assert store.list()[0].revoked_unix is None


def test_a_change_by_another_connection_is_noticed_once(store, tmp_path):
    watching = KeyStore(tmp_path)
    assert watching.list_if_changed() == []
    assert watching.list_if_changed() is None

    _, key = store.create(tenant="acme", scopes=WRITE, by="test")
    assert watching.list_if_changed() == [key]
    assert watching.list_if_changed() is None
    revoked = store.revoke(key.id, by="test")
    assert watching.list_if_changed() == [revoked]
    (tmp_path / "keys.sqlite").unlink()
    assert watching.list_if_changed() == []
    assert watching.list_if_changed() is None
    watching.close()


def test_a_path_that_cannot_be_examined_is_an_error_and_not_an_empty_list(tmp_path):
    (tmp_path / "data").write_text("a file where the folder should be")
    store = KeyStore(tmp_path / "data")

    with pytest.raises(KeysUnreadableError, match="Not a directory"):
        store.list()
    with pytest.raises(KeysUnreadableError, match="Not a directory"):
        store.list_if_changed()


def test_a_scope_of_another_version_is_an_error_that_names_it(store, tmp_path):
    _, key = store.create(tenant="acme", scopes=WRITE, by="test")
    with sqlite3.connect(tmp_path / "keys.sqlite") as file:
        file.execute("UPDATE keys SET scopes='write,fly' WHERE id=?", (key.id,))
    file.close()

    with pytest.raises(KeysUnreadableError, match="fly"):
        store.list()


def test_invalid_key_database_is_an_error(store, tmp_path):
    (tmp_path / "keys.sqlite").write_bytes(b"nonsense" * 1000)

    with pytest.raises(KeysUnreadableError):
        store.list()
    with pytest.raises(KeysUnreadableError):
        store.create(tenant="acme", scopes=WRITE, by="test")


def test_action_fails_if_it_cannot_be_audited(tmp_path):
    (tmp_path / "audit").write_text("a file where the folder should be")
    store = KeyStore.of(tmp_path)

    with pytest.raises(Exception, match="audit"):
        store.create(tenant="acme", scopes=WRITE, by="test")
    assert store.list() == []
    with sqlite3.connect(tmp_path / "keys.sqlite") as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    file.close()


@pytest.mark.parametrize("tenant", ["", "a b", "-x", "../up", "x" * 64, "ñ", "a\n"])
def test_a_name_that_cannot_be_a_tenant_is_refused(store, tenant):
    with pytest.raises(BadRequestError, match="expected 1 to 63"):
        store.create(tenant=tenant, scopes=WRITE, by="test")


@pytest.mark.parametrize("text", ["", "public", "write,all", "WRITE", ","])
def test_scopes_that_cannot_be_granted_are_refused(text):
    with pytest.raises(BadRequestError, match="expected some of admin, read, write"):
        parse_scopes(text)


def test_expiry_is_a_duration_or_a_date():
    assert parse_expiry("90d", now_unix=0) == 90 * 86_400
    assert parse_expiry("12h", now_unix=5) == 12 * 3600 + 5
    assert parse_expiry("1970-01-02", now_unix=0) == 86_400
    assert parse_expiry("1970-01-01T01:00:00+01:00", now_unix=0) == 0
    for wrong in ("soon", "0d", "-3d", "9" * 20 + "d", "2027-13-01"):
        with pytest.raises(BadRequestError, match="expected a duration"):
            parse_expiry(wrong, now_unix=0)


def test_a_key_that_would_have_expired_already_is_refused(store):
    with pytest.raises(BadRequestError, match="time to come"):
        store.create(tenant="acme", scopes=WRITE, expires="1970-01-01T00:16:40", by="test")


def test_a_malformed_static_pair_is_named_by_its_place_and_not_shown():
    with pytest.raises(StartupError, match="entry 2 is not of the form") as error:
        read_static_keys(f"a:{'b' * 20}, hunter2-and-19-others")
    assert "hunter2" not in str(error.value)


def test_a_key_is_read_from_two_headers_and_from_nowhere_else():
    assert key_in({"x-api-key": "k"}) == "k"
    assert key_in({"authorization": "bearer k"}) == "k"
    assert key_in({"authorization": "Basic k"}) == ""
    assert key_in({"cookie": "x-api-key=k"}) == ""


def test_loopback_addresses_are_recognised():
    assert all(map(is_loopback, ["127.0.0.1", "127.8.8.8", "::1", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "10.0.0.1", "example.org", ""]))
