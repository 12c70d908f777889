"""Members of a group from the settings."""

import pytest

from tracereel_collector.config import Settings
from tracereel_collector.errors import StartupError, UnauthorizedError
from tracereel_collector.group.members import Group, OtherMembersError

SECRET = "a-secret-of-these-tests-only"
TWO = "a=http://127.0.0.1:1,b=http://127.0.0.1:2"


def group(peers=TWO, name="a", secret=SECRET):
    return Group.of(Settings(peers=peers, name=name, group_secret=secret))


def test_a_collector_without_peers_is_in_no_group():
    assert group(peers="") is None


def test_members_are_named_in_any_order_and_know_their_peers():
    one, other = group(), group(peers=", ".join(reversed(TWO.split(","))), name="b")
    assert one.digest == other.digest
    assert [peer.name for peer in one.peers] == ["b"]
    assert [peer.name for peer in other.peers] == ["a"]


def test_a_member_may_move_to_another_address():
    assert group().digest == group(peers="a=http://127.0.0.1:1,b=https://elsewhere:9").digest


@pytest.mark.parametrize(
    "given",
    [
        {"peers": ","},
        {"peers": "a=127.0.0.1:1,b=http://127.0.0.1:2"},
        {"peers": "a=http://127.0.0.1:1,a=http://127.0.0.1:2"},
        {"peers": "A B=http://127.0.0.1:1,b=http://127.0.0.1:2"},
        {"peers": "a=http://127.0.0.1:99999,b=http://127.0.0.1:2"},
        {"peers": ",".join(f"m{n}=http://127.0.0.1:{n + 1}" for n in range(33))},
        {"name": "not a name"},
        {"name": ""},
        {"secret": "short"},
    ],
)
def test_settings_that_describe_no_group_are_refused(given):
    with pytest.raises(StartupError):
        group(**given)


def test_requests_need_the_secret_and_the_same_list():
    one, other = group(), group(name="b")
    one.check_secret(other.headers())
    one.check_list(other.headers())
    for headers in ({}, group(name="b", secret="another-secret-of-these-tests").headers()):
        with pytest.raises(UnauthorizedError):
            one.check_secret(headers)
    longer = group(peers=f"{TWO},c=http://127.0.0.1:3")
    with pytest.raises(OtherMembersError):
        one.check_list(longer.headers())


def test_the_secret_is_not_shown():
    assert SECRET not in repr(group())
