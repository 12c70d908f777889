"""Keys and login sessions hold on every member of a group."""

import json

import pytest

from tests.support.collector import http
from tests.support.collector_group import CollectorGroup
from tests.support.keys import make_key
from tests.support.waiting import wait_until


@pytest.fixture
def group(tmp_path):
    made = CollectorGroup(tmp_path, "ab")
    yield made
    made.close()


def status(collector, key, path="/v1/traces"):
    return http("GET", f"{collector.url}{path}", headers={"x-api-key": key}).status


def test_keys_and_sessions_hold_on_every_member(group):
    group.start()
    a, b = group
    # A key of the command reaches the other member, which was open to all until then.
    admin = make_key(a.data_dir, scope="admin,read,write")["key"]
    wait_until(lambda: http("GET", f"{b.url}/v1/traces").status == 401)
    assert status(b, admin) == 200

    # A key of the API holds everywhere at once, and ends everywhere at once.
    made = http("POST", f"{b.url}/v1/keys", b"{}", {"x-api-key": admin}).json()
    assert "not_reached" not in made
    assert status(a, made["key"]) == status(b, made["key"]) == 200
    revoked = http("DELETE", f"{a.url}/v1/keys/{made['id']}", headers={"x-api-key": admin}).json()
    assert revoked["state"] == "revoked"
    assert status(a, made["key"]) == status(b, made["key"]) == 401
    listed = [
        http("GET", f"{each.url}/v1/keys", headers={"x-api-key": admin}).json() for each in group
    ]
    assert listed[0] == listed[1]

    # A login at one member is one at all, and so is its end.
    login = http("POST", f"{a.url}/v1/login", b"", {"x-api-key": admin})
    cookie = {"cookie": login.headers["set-cookie"].split(";")[0]}
    for each in group:
        assert http("GET", f"{each.url}/v1/traces", headers=cookie).status == 200
    assert http("POST", f"{b.url}/v1/logout", b"", cookie).json() == {}
    for each in group:
        assert http("GET", f"{each.url}/v1/traces", headers=cookie).status == 401

    # A member that is away is named, and learns of it when it returns.
    b.kill()
    other = http("POST", f"{a.url}/v1/keys", b"{}", {"x-api-key": admin}).json()
    assert other["not_reached"] == ["b"]
    ended = http("DELETE", f"{a.url}/v1/keys/{other['id']}", headers={"x-api-key": admin}).json()
    assert ended["not_reached"] == ["b"]
    more = http(
        "POST", f"{a.url}/v1/keys", json.dumps({"scopes": "read"}).encode(), {"x-api-key": admin}
    ).json()
    b.start()
    wait_until(lambda: status(b, more["key"]) == 200)
    assert status(b, other["key"]) == 401
