"""Static keys from the environment: minimum length, scopes, never shown in errors."""

import pytest

from tracereel_collector.auth.keyring import read_static_keys
from tracereel_collector.auth.keys import ORDINARY, KeyScope
from tracereel_collector.errors import StartupError

KEY = "0123456789abcdefghij"


def test_entries_may_name_scopes():
    found = read_static_keys(f"acme:{KEY}, acme/read:{KEY}:2 ,other/read+write:{KEY}3,")

    assert [(each.id, each.tenant, key) for key, each in found.items()] == [
        ("static-1", "acme", KEY),
        ("static-2", "acme", f"{KEY}:2"),
        ("static-3", "other", f"{KEY}3"),
    ]
    assert [each.scopes for each in found.values()] == [ORDINARY, {KeyScope.READ}, ORDINARY]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (f"acme:{KEY[:-1]}", "entry 1 has a key of 19 characters; expected 20 to 512"),
        (f"acme:{KEY * 26}", "expected 20 to 512"),
        (f"acme:{KEY} {KEY}", "without spaces"),
        (f"acme:{KEY}é", "printable ASCII"),
        (KEY, "is not of the form tenant:key"),
        (f":{KEY}", "is not of the form tenant:key"),
        (f"acme/admin:{KEY}", "cannot have the scope admin"),
        (f"acme/:{KEY}", "expected some of admin, read, write"),
        (f"acme/reed:{KEY}", "expected some of admin, read, write"),
        (f"a b:{KEY}", "tenant is 'a b'"),
        (f"acme:{KEY},other:{KEY}", "entry 2 has the key of another entry"),
    ],
)
def test_weak_static_entry_is_refused_without_showing_it(entry, reason):
    with pytest.raises(StartupError) as error:
        read_static_keys(entry)

    assert reason in error.value.message
    assert KEY[:10] not in error.value.message


def test_weak_static_key_is_a_startup_error():
    with pytest.raises(StartupError, match="expected 20 to 512"):
        read_static_keys("acme:k")
    assert len(read_static_keys(f"acme:{KEY}")) == 1
