"""Heartbeat validation: accepted fields and rejection messages."""

import json

import pytest

from tracereel_collector.errors import BadRequestError, TooLargeError
from tracereel_collector.ingest.heartbeats import MAX_BYTES, check_heartbeats

GOOD = {
    "emitter_id": "emt_1",
    "state": "alive",
    "sent_at": "2026-01-23T10:00:00Z",
    "recorded": 7,
    "dropped": {"spool_full": 2},
}


def check(value):
    return check_heartbeats(json.dumps(value).encode())


def test_one_or_several_heartbeats_become_lines():
    assert [json.loads(line)["recorded"] for line in check(GOOD).lines] == [7]
    several = check([GOOD, {**GOOD, "recorded": 8}])
    assert [json.loads(line)["recorded"] for line in several.lines] == [7, 8]
    assert several.rejected == []


def test_unknown_heartbeat_fields_are_dropped():
    (line,) = check({**GOOD, "tenant": "somebody else", "mood": "fine"}).lines

    assert not {"tenant", "mood"} & json.loads(line).keys()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"state": "asleep"}, "state: invalid enum value 'asleep'; got 'asleep'"),
        ({"recorded": -1}, "recorded: expected `int` >= 0; got -1"),
        ({"recorded": 2**64}, "recorded: expected `int` <= 9223372036854775807"),
        ({"recorded": "7"}, "recorded: expected `int`, got `str`; got '7'"),
        ({"emitter_id": ""}, "emitter_id: expected `str` of length >= 1; got ''"),
        ({"emitter_id": "e" * 129}, "emitter_id: expected `str` of length <= 128"),
        ({"sent_at": "yesterday"}, "sent_at: invalid RFC3339 encoded datetime; got 'yesterday'"),
        ({"sent_at": "1823-01-01T00:00:00Z"}, "sent_at: expected a year from 1970 to 2261"),
        (
            {"dropped": {f"r{n}": 1 for n in range(65)}},
            "dropped: expected `object` of length <= 64",
        ),
        ({"interval_seconds": 1e9}, "interval_seconds: expected `float` <= 86400.0"),
    ],
)
def test_a_refusal_names_the_field_what_came_and_what_is_accepted(change, expected):
    (rejection,) = check([{**GOOD, **change}]).rejected

    assert rejection.index == 0
    assert expected in rejection.reason


@pytest.mark.parametrize("missing", ["emitter_id", "state", "sent_at", "recorded"])
def test_a_required_field_is_named(missing):
    (rejection,) = check({key: GOOD[key] for key in GOOD if key != missing}).rejected

    assert rejection.reason == f"{missing}: missing; the field is required"


def test_valid_heartbeats_are_accepted_beside_invalid_ones():
    checked = check([GOOD, 5, {**GOOD, "state": None}, GOOD])

    assert len(checked.lines) == 2
    assert [(each.index, each.event_id) for each in checked.rejected] == [(1, None), (2, "emt_1")]
    assert checked.rejected[0].reason == "expected a JSON object, got a number"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"7", b"{", b'"x"', b"[" * 5000, b'{"emitter_id": "\xff"}']
)
def test_other_bodies_are_refused_with_the_shapes_that_are_accepted(body):
    with pytest.raises(BadRequestError) as refused:
        check_heartbeats(body)

    assert "JSON" in str(refused.value.hint)


def test_oversized_heartbeat_bodies_are_refused():
    with pytest.raises(TooLargeError, match="at most 1048576"):
        check_heartbeats(b" " * (MAX_BYTES + 1))
    with pytest.raises(TooLargeError, match="at most 1000"):
        check([GOOD] * 1001)
