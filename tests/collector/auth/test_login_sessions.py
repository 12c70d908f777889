"""Login sessions: random, bound to their key, bounded, ended on the server."""

import sqlite3
import stat

import pytest

from tests.collector.auth.test_gate import World
from tests.support.waiting import wait_until
from tracereel_collector.auth import sessions as module
from tracereel_collector.auth.browsers import (
    PLAIN,
    SECURE,
    PublicUrl,
    parse_public_url,
    session_cookie,
    session_in,
)
from tracereel_collector.auth.keys import KeyScope, digest_of
from tracereel_collector.auth.sessions import (
    LIFETIME_SECONDS,
    SessionStore,
    SessionsUnreadableError,
)
from tracereel_collector.errors import ForbiddenError, StartupError, UnauthorizedError

KEY = "a-static-key-of-these-tests"
HTTPS = parse_public_url("https://traces.example")


class SettableClock:
    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return SettableClock()


@pytest.fixture
def store(tmp_path, clock):
    return SessionStore(tmp_path / "sessions.sqlite", now_unix=clock)


@pytest.fixture
def world(tmp_path):
    made = []

    def make(**options):
        made.append(World(tmp_path, **options))
        made[-1].gate.start()
        return made[-1]

    yield make
    for each in made:
        each.gate.close()


def new_key(here, **options):
    made = here.key(**options)
    here.gate.refresh()
    return made


def begin(here, key):
    """Return the request headers of a logged-in browser."""
    token = here.gate.begin_session(here.admit(key), key)
    return {"cookie": f"theme=dark; {PLAIN}={token}", "sec-fetch-site": "same-origin"}


def test_session_file_contains_neither_token_nor_key(store, tmp_path):
    token = store.begin("k1", digest_of(KEY))

    content = (tmp_path / "sessions.sqlite").read_bytes()
    assert token.encode() not in content
    assert digest_of(KEY) not in content
    assert stat.S_IMODE((tmp_path / "sessions.sqlite").stat().st_mode) == 0o600
    assert len(token) >= 43


def test_a_session_is_found_until_it_expires_or_is_ended(store, clock):
    first, second = (store.begin("k1", b"d") for _ in range(2))
    assert first != second
    assert store.find(first).key_id == "k1"
    assert store.end(first)
    assert not store.end(first)
    assert store.find(first) is None
    clock.now += LIFETIME_SECONDS - 1
    assert store.find(second) is not None
    clock.now += 1
    assert store.find(second) is None
    assert store.find("x" * 100_000) is None


def test_a_session_begun_under_a_clock_that_was_ahead_does_not_last_longer(store, clock):
    clock.now += 400 * 86_400
    token = store.begin("k1", b"d")
    clock.now -= 400 * 86_400

    assert store.find(token) is None


def test_sessions_are_bounded_per_key_and_in_total(store, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "MAX_PER_KEY", 3)
    monkeypatch.setattr(module, "MAX_SESSIONS", 5)
    other = store.begin("other", b"d")
    mine = [store.begin("k1", b"d") for _ in range(6)]
    assert [store.find(each) is not None for each in mine] == [False] * 3 + [True] * 3
    assert store.find(other) is not None, "one key's logins must not end another's"

    for number in range(4):
        store.begin(f"more{number}", b"d")
    with sqlite3.connect(tmp_path / "sessions.sqlite") as file:
        assert file.execute("SELECT count(*) FROM sessions").fetchone() == (5,)
    file.close()


def test_expired_sessions_are_removed(store, clock, tmp_path):
    store.begin("k1", b"d")
    clock.now += LIFETIME_SECONDS + 1
    store.begin("k2", b"d")

    with sqlite3.connect(tmp_path / "sessions.sqlite") as file:
        assert file.execute("SELECT key_id FROM sessions").fetchall() == [("k2",)]
    file.close()


def test_all_processes_share_the_sessions(store, tmp_path, clock):
    another = SessionStore(tmp_path / "sessions.sqlite", now_unix=clock)
    token = store.begin("k1", b"d")
    assert another.find(token).key_id == "k1"
    another.end(token)
    assert store.find(token) is None


def test_a_file_that_is_deleted_ends_all_sessions_and_new_ones_begin(store, tmp_path):
    token = store.begin("k1", b"d")
    (tmp_path / "sessions.sqlite").unlink()
    assert store.find(token) is None
    assert not (tmp_path / "sessions.sqlite").exists(), "looking for a session creates nothing"

    assert store.find(store.begin("k1", b"d")) is not None


def test_damaged_session_file_is_an_error_with_advice(tmp_path):
    (tmp_path / "sessions.sqlite").write_bytes(b"nonsense" * 1000)
    store = SessionStore(tmp_path / "sessions.sqlite")

    with pytest.raises(SessionsUnreadableError, match="cannot be used") as error:
        store.begin("k1", b"d")
    assert "delete it" in error.value.hint


def test_a_session_may_do_what_its_key_may(world):
    here = world(static=f"old:{KEY}")
    reader, key = new_key(here, scopes=("read",))
    headers = begin(here, reader)

    caller = here.admit(**headers)
    assert (caller.tenant, caller.key_id, caller.scopes) == ("acme", key.id, {KeyScope.READ})
    with pytest.raises(ForbiddenError, match="write is needed"):
        here.admit(scope=KeyScope.WRITE, **headers)
    assert here.admit(**begin(here, KEY)).tenant == "old"


def test_a_session_ends_when_its_key_is_revoked(world):
    here = world()
    secret, key = new_key(here)
    headers = begin(here, secret)
    here.keys.revoke(key.id, by="test")
    wait_until(lambda: here.gate._ring.stored[key.id].revoked_unix, timeout=2)

    with pytest.raises(UnauthorizedError, match="revoked"):
        here.admit(**headers)
    assert here.refused("revoked_key") == 1


def test_a_session_of_a_static_key_ends_when_the_environment_changes(world):
    """The next key in that position has the same id and may belong to another tenant."""
    headers = begin(world(static=f"acme:{KEY}"), KEY)
    assert world(static=f"acme:{KEY}").admit(**headers).tenant == "acme"

    after = world(static=f"other:another-{KEY}")
    with pytest.raises(UnauthorizedError, match="the session has ended"):
        after.admit(**headers)
    assert after.refused("ended_session") == 1


def test_a_session_works_in_a_process_that_does_not_know_its_key_yet(world):
    here, worker = world(static=f"old:{KEY}"), world(static=f"old:{KEY}")
    secret, _ = here.key()
    headers = begin(here, secret)

    assert worker.admit(**headers).tenant == "acme"


def test_logout_ends_the_session_on_the_server_and_other_sites_cannot(world, tmp_path):
    here = world()
    secret, _ = new_key(here)
    headers = begin(here, secret)
    with pytest.raises(ForbiddenError, match="another site"):
        here.gate.end_session({**headers, "sec-fetch-site": "cross-site"}, peer="192.0.2.1")
    assert here.admit(**headers).tenant == "acme"

    here.gate.end_session(headers, peer="192.0.2.1")
    here.gate.end_session({}, peer="192.0.2.1")

    with pytest.raises(UnauthorizedError, match="the session has ended"):
        here.admit(**headers)
    here.gate.close()
    log = (tmp_path / "audit" / "audit.ndjson").read_text()
    assert "session.created" in log
    assert "session.ended" in log


def test_invalid_session_tokens_do_not_count_as_key_guesses(world):
    here = world()
    secret, _ = new_key(here)
    for number in range(20):
        with pytest.raises(UnauthorizedError, match="the session has ended"):
            here.admit(**{"cookie": f"{PLAIN}=wrong{number}", "sec-fetch-site": "same-origin"})
    # The key itself is not a valid session token.
    with pytest.raises(UnauthorizedError):
        here.admit(**{"cookie": f"{PLAIN}={secret}", "sec-fetch-site": "same-origin"})

    assert here.refused("ended_session") == 21
    assert here.admit(secret).tenant == "acme"


@pytest.mark.parametrize(
    ("public", "headers", "secure"),
    [
        (PublicUrl(), {}, False),
        (PublicUrl(), {"x-forwarded-proto": "https"}, False),
        (PublicUrl(trust_forwarded_proto=True), {"x-forwarded-proto": "https"}, True),
        (PublicUrl(trust_forwarded_proto=True), {"x-forwarded-proto": "HTTPS, http"}, True),
        (PublicUrl(trust_forwarded_proto=True), {"x-forwarded-proto": "http"}, False),
        (PublicUrl(trust_forwarded_proto=True), {}, False),
        (HTTPS, {}, True),
        (parse_public_url("http://box:4318"), {"x-forwarded-proto": "https"}, False),
    ],
)
def test_cookie_is_secure_over_tls(public, headers, secure):
    made = session_cookie("token", headers, public)

    assert made.startswith(f"{SECURE if secure else PLAIN}=token; Path=/; Max-Age=")
    assert "; HttpOnly; SameSite=Strict" in made
    assert made.endswith("; Secure") is secure
    assert "Max-Age=0" in session_cookie("", headers, public)
    # A cookie that was set without TLS is not accepted over TLS.
    given = {**headers, "sec-fetch-site": "same-origin"}
    assert session_in({**given, "cookie": f"{SECURE}=a; {PLAIN}=b"}, public) == "ba"[secure]
    assert session_in({**given, "cookie": f"{(SECURE, PLAIN)[secure]}=c"}, public) == ""


@pytest.mark.parametrize(
    ("headers", "counts"),
    [
        ({}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "same-origin", "origin": "https://evil.example"}, True),
        ({"origin": "http://box:4318"}, True),
        ({"origin": "https://traces.example"}, True),
        ({"origin": "http://traces.example"}, False),
        ({"referer": "https://traces.example/#/run/x"}, True),
        ({"referer": "https://traces.example.evil.example/"}, False),
        ({"referer": "https://evil.example/https://traces.example/"}, False),
        ({"referer": "nonsense"}, False),
        ({"origin": "null"}, False),
    ],
)
def test_cookie_is_accepted_from_the_own_page_only(headers, counts):
    given = {"host": "box:4318", "cookie": f"{SECURE}=token", **headers}

    assert bool(session_in(given, HTTPS)) is counts


@pytest.mark.parametrize(
    "text",
    [
        *("traces.example", "ftp://a", "https://a/path", "https://", "https://a?b", "https://a:x"),
        *("https://user@a", "https://a#b"),
    ],
)
def test_invalid_public_url_is_a_startup_error(text):
    with pytest.raises(StartupError, match="TRACEREEL_PUBLIC_URL"):
        parse_public_url(text)
