"""Event validation: every rejection has a reason, valid events pass byte for byte."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.contract import EXAMPLES, PRINTED, example
from tracereel_collector.ingest.check import EventCheck
from tracereel_collector.ingest.decoders import EventDecoders
from tracereel_collector.model import EmitterRun

door = EventCheck(max_event_bytes=100_000)
decoders = EventDecoders()
COMPLETED = example("agent.execution.completed")


def reason(line):
    checked = door.check(
        [line if isinstance(line, bytes) else json.dumps(line).encode()], tenant="default"
    )
    assert checked.lines == []
    (rejection,) = checked.rejected
    return rejection.reason


def without(field):
    return {key: value for key, value in COMPLETED.items() if key != field}


@pytest.mark.parametrize("printed", PRINTED, ids=[each["event_type"] for each in EXAMPLES])
def test_the_contracts_examples_pass_with_every_field(printed):
    checked = door.check([printed], tenant="default")

    assert checked.rejected == []
    assert json.loads(checked.lines[0]) == json.loads(printed)
    assert b"\n" not in checked.lines[0]


def test_a_line_that_passes_is_the_very_bytes_that_came():
    lines = [json.dumps(each).encode() for each in EXAMPLES]

    checked = door.check(lines, tenant="default")

    assert all(kept is line for kept, line in zip(checked.lines, lines, strict=True))


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (without("agent_name"), "agent_name: missing"),
        (without("trace_id"), "trace_id: missing"),
        (without("event_type"), "event_type: missing"),
        (without("execution_time_ms"), "execution_time_ms: missing"),
        ({**COMPLETED, "agent_name": 7}, "agent_name: expected `str`, got `int`"),
        ({**COMPLETED, "agent_name": ""}, "agent_name: expected `str` of length >= 1"),
        ({**COMPLETED, "execution_time_ms": "9"}, "execution_time_ms: expected `int`, got `str`"),
        ({**COMPLETED, "execution_time_ms": -1}, "execution_time_ms: expected `int` >= 0; got -1"),
        ({**COMPLETED, "confidence": 1.5}, "confidence: expected `float` <= 1.0; got 1.5"),
        (
            {**COMPLETED, "event_type": "agent.unknown"},
            "'agent.unknown' is unknown; expected one of",
        ),
        ({**COMPLETED, "event_type": 3}, "event_type: 3 is unknown"),
        ({**COMPLETED, "event_version": "2.0.0"}, "'2.0.0' is not supported; expected a 1.x"),
        ({**COMPLETED, "trace_id": "a b"}, "trace_id: expected"),
        ({**COMPLETED, "trace_id": "newline\n"}, "trace_id: expected"),
        ({**COMPLETED, "trace_id": "x" * 129}, "trace_id: expected"),
        ({**COMPLETED, "timestamp": "soon"}, "timestamp: invalid RFC3339"),
        ({**COMPLETED, "timestamp": "1969-12-31T23:59:59Z"}, "expected a year from 1970"),
        ({**COMPLETED, "emitter_seq": 2**64}, "emitter_seq: expected `int` <="),
        (b'["a"]', "expected a JSON object, got an array"),
        (b"null", "expected a JSON object, got null"),
        (b'{"event_type": ', "not valid JSON"),
        (b'{"x": NaN}', "x: expected a number of 64 bits; got NaN"),
        (b'{"a": {"b": [1, 1e400]}}', "a.b[1]: expected a number of 64 bits; got 1e400"),
        (b'{"x": "\xff"}', "x: expected text in UTF-8; got invalid UTF-8"),
        (b'{"x": "\\ud800"}', "x: expected text in UTF-8; got surrogates"),
        (b'{"\\ud800": 1}', "<a key>: expected text in UTF-8"),
        ({**COMPLETED, "timestamp": "2026-01-23T10:00:00.0123456789Z" + " " * 9}, "timestamp"),
        (
            {**COMPLETED, "timestamp": "2026-01-23T10:00:00.0123456789012345Z"},
            "too long; expected at most nanoseconds",
        ),
        (b'{"x": ' + b"[" * 40_000 + b"]" * 40_000 + b"}", "nested too deep"),
        (b'{"x": "' + b"y" * 100_000 + b'"}', "at most 100000 are accepted"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_refusal_names_the_field_and_what_was_expected(event, message):
    assert message in reason(event)


@pytest.mark.parametrize("version", ["1.0", "1.0.0", "1.7.23"])
def test_any_version_1_is_accepted(version):
    line = json.dumps({**COMPLETED, "event_version": version}).encode()

    assert door.check([line], tenant="default").rejected == []


@pytest.mark.parametrize(
    "field", ["confidence", "reasoning", "decision_type", "agent_version", "llm_tokens_used"]
)
def test_optional_agent_fields_may_be_null_or_absent(field):
    lines = [json.dumps({**COMPLETED, field: None}).encode(), json.dumps(without(field)).encode()]

    assert door.check(lines, tenant="default").rejected == []


def test_users_own_types_and_unknown_fields_pass():
    line = json.dumps(
        {
            "event_id": "1",
            "event_type": "custom.cart.abandoned",
            "timestamp": "2026-01-23T10:00:00",
            "trace_id": "t",
            "cart": {"items": 3},
        }
    ).encode()

    assert door.check([line], tenant="default").lines == [line]


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
@pytest.mark.parametrize(
    ("depth", "enters"), [(150, True), (300, False), (600, False), (990, False)]
)
@pytest.mark.parametrize("shape", [b'{"a":%b}', b"[%b]"], ids=["objects", "arrays"])
def test_nesting_depth_limit_is_independent_of_formatting(depth, enters, separators, shape):
    value = b"1"
    for _ in range(depth):
        value = shape % value
    line = json.dumps(COMPLETED, separators=separators).encode()[:-1] + b', "x": ' + value + b"}"

    checked = door.check([line], tenant="default")

    assert bool(checked.lines) is enters
    assert enters or "nested too deep" in checked.rejected[0].reason


def test_of_very_many_refusals_the_first_are_explained_and_all_counted():
    checked = door.check([b"1"] * 5_000, tenant="default")

    assert len(checked.rejected) == 1_000
    assert checked.reasons.total() == 5_000


def test_rejection_of_invalid_json_names_the_event_id_if_readable():
    (rejection,) = door.check([b'{"event_id": "evt_1", "x": NaN}'], tenant="default").rejected

    assert rejection.event_id == "evt_1"


def test_in_a_batch_the_bad_are_named_by_position_and_the_good_kept():
    good = json.dumps(COMPLETED).encode()

    checked = door.check(
        [good, b"nonsense", json.dumps({**COMPLETED, "confidence": 9}).encode()], tenant="default"
    )

    assert checked.lines == [good]
    assert [(each.index, each.event_id) for each in checked.rejected] == [
        (1, None),
        (2, COMPLETED["event_id"]),
    ]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("tenant", "default"),
        ("tenant", None),
        ("sequence_number", "forged"),
        ("ingested_at", "forged"),
        ("session_user_mismatch", True),
    ],
)
def test_collector_fields_are_removed_from_sent_events(field, message):
    checked = door.check([json.dumps({**COMPLETED, field: message}).encode()], tenant="default")

    assert json.loads(checked.lines[0]) == COMPLETED


@pytest.mark.parametrize("claimed", ["other", 7, ["default"], {"name": "default"}, True])
def test_event_of_another_tenant_is_rejected_and_counted_separately(claimed):
    lines = [json.dumps(each).encode() for each in ({**COMPLETED, "tenant": claimed}, COMPLETED)]

    checked = door.check(lines, tenant="default")

    assert checked.lines == [lines[1]]
    assert (checked.reasons.total(), checked.reasons["tenant_claim"]) == (1, 1)
    assert "another tenant" in checked.rejected[0].reason


def test_sessions_and_their_users_are_named_once_in_the_order_they_came():
    claims = [("s1", "ana"), ("s1", "bob"), ("s2", "ana"), ("s1", "ana"), ("s3", None), (None, "x")]
    lines = [
        json.dumps({**COMPLETED, "session_id": session, "user_id": user}).encode()
        for session, user in claims
    ]

    assert door.check(lines, tenant="default").owners == (
        ("s1", "ana"),
        ("s1", "bob"),
        ("s2", "ana"),
    )


@pytest.mark.parametrize(
    "line",
    [
        msgspec.json.encode(COMPLETED)[:-1] + b',"event_id":"second"}',
        msgspec.json.encode(COMPLETED)[:-1] + b' , "event_id" : "second" }',
        b'{"event_id": "first", ' + json.dumps({**COMPLETED, "event_id": "second"}).encode()[1:],
    ],
)
def test_duplicate_json_keys_are_collapsed_to_the_last(line):
    checked = door.check([line], tenant="default")

    pairs = json.loads(checked.lines[0], object_pairs_hook=list)
    assert [value for key, value in pairs if key == "event_id"] == ["second"]


def test_text_that_looks_like_a_key_is_not_taken_for_one():
    line = json.dumps({**COMPLETED, "reasoning": '{"event_id": 1}', "x": {"event_id": 2}}).encode()

    assert door.check([line], tenant="default").lines == [line]


numbers = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(1, 5)), max_size=30)


@given(numbers)
def test_ledger_runs_cover_every_emitter_number(records):
    lines = []
    for emitter, number in records:
        ledger = {"emitter_id": emitter, "emitter_seq": number} if emitter else {}
        lines.append(msgspec.json.encode({**COMPLETED, **ledger}))

    runs = door.check(lines, tenant="default").runs

    unfolded = [
        (run.emitter_id, run.first + step if run.emitter_id else None)
        for run in runs
        for step in range(run.count)
    ]
    assert unfolded == [(emitter, number if emitter else None) for emitter, number in records]
    assert all(isinstance(run, EmitterRun) for run in runs)


@given(st.binary(max_size=200))
def test_any_bytes_are_either_kept_or_refused_with_a_reason(line):
    checked = door.check([line], tenant="default")

    assert len(checked.lines) + len(checked.rejected) == 1
    assert all(each.reason for each in checked.rejected)


@given(
    st.sampled_from(EXAMPLES),
    st.data(),
    st.one_of(
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=20),
        st.sampled_from([None, True, [], ["a"], [1], {}, {"a": 1}, "2026-01-23", "1.0", 1.0]),
    ),
)
def test_the_door_takes_exactly_what_the_types_of_the_contract_take(event, data, value):
    field = data.draw(st.sampled_from(sorted(event)))
    line = msgspec.json.encode({**event, field: value})
    if field in ("event_type", "timestamp"):
        return  # these have rules beyond their type

    try:
        decoders.of(event["event_type"]).decode(line)
        accepted = True
    except msgspec.ValidationError:
        accepted = False

    assert bool(door.check([line], tenant="t").lines) is accepted
