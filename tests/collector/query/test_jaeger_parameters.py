"""Parsing and formatting of parameters, ids and values in Jaeger's APIs."""

import base64
import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.growth import excess
from tracereel_collector.errors import BadRequestError
from tracereel_collector.query.jaeger import parameters
from tracereel_collector.query.jaeger.legacy import shown
from tracereel_collector.query.jaeger.parameters import (
    boolean,
    check_id,
    duration,
    integer,
    moment,
    trace_time,
)
from tracereel_collector.query.jaeger.reader import otel_id
from tracereel_collector.query.jaeger.values import (
    BOOL,
    BYTES,
    DOUBLE,
    INT,
    LIST,
    MAP,
    TEXT,
    any_value,
    own_types,
    tag,
)

SECOND = 10**9
TYPES = st.sampled_from([TEXT, BOOL, INT, DOUBLE, LIST, MAP, BYTES])


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("1ns", 1),
        ("1us", 1_000),
        ("1µs", 1_000),
        ("1.5ms", 1_500_000),
        (".5s", SECOND // 2),
        ("2m30s", 150 * SECOND),
        ("1h", 3_600 * SECOND),
        ("-1s", -SECOND),
    ],
)
def test_durations_use_go_syntax(text, nanoseconds):
    assert duration(text) == nanoseconds


def test_duration_above_the_length_limit_is_refused_unread(monkeypatch):
    read = []

    class Recorded:
        def fullmatch(self, text):
            read.append(text)
            return pattern.fullmatch(text)

    pattern = parameters._DURATION
    monkeypatch.setattr(parameters, "_DURATION", Recorded())
    for text in ("1" * 30_000, "1s" * 51):
        with pytest.raises(ValueError, match="expected a form like"):
            duration(text)
    assert duration("1s" * 50) == 50 * SECOND
    assert read == ["1s" * 50]


def test_time_to_read_a_duration_grows_linearly():
    """Tests the pattern itself, without the length check before it."""
    assert excess(parameters._DURATION.fullmatch, lambda size: "1" * size) is None


@given(st.text(max_size=8))
def test_invalid_parameters_raise_only_value_error(text):
    for read in (duration, integer, boolean, moment):
        with contextlib.suppress(ValueError):  # no other exception may be raised
            assert isinstance(read(text), int)


@given(st.integers(0, 2200 * 31_556_952 * 10**6 - 1971 * 31_556_952 * 10**6), st.integers(0, 999))
def test_times_keep_their_nanoseconds(at, more):
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
    text = at.strftime("%Y-%m-%dT%H:%M:%S.%f") + f"{more:03d}Z"
    whole = int((at.replace(microsecond=0) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())

    assert moment(text) == whole * SECOND + at.microsecond * 1_000 + more


def test_times_may_be_in_other_zones():
    assert moment("1970-01-01T01:00:00+01:00") == 0
    assert moment("1970-01-01t00:00:00.5z") == SECOND // 2


def test_a_small_moment_is_in_milliseconds():
    assert trace_time("1769162400000") == trace_time("1769162400000000") == 1769162400 * SECOND


@given(st.binary(min_size=16, max_size=16))
def test_every_form_of_an_id_means_the_same(data):
    forms = [
        data.hex(),
        data.hex().upper(),
        base64.b64encode(data).decode(),
        base64.urlsafe_b64encode(data).decode(),
        base64.b64encode(data).decode().rstrip("="),
    ]
    # Text that is valid hexadecimal is never read as base64.
    assert {otel_id(form) for form in forms if not _is_hex(form) or len(form) == 32} == {data.hex()}
    assert otel_id(shown(data.hex())) == data.hex()


def _is_hex(text):
    return all(letter in "0123456789abcdefABCDEF" for letter in text)


@given(st.text(max_size=40))
def test_any_id_is_parsed_or_refused(text):
    with contextlib.suppress(BadRequestError):
        assert check_id(text) == text


@given(st.text(max_size=30), TYPES)
def test_a_value_that_is_not_of_its_type_is_shown_as_text(text, kind):
    made = tag("k", text, kind)
    assert made["type"] in ("string", "bool", "int64", "float64", "binary")
    if made["type"] == "string":
        assert made["value"] == text
    (name,) = any_value(text, kind) or {"none": 0}
    assert name.endswith("Value") or name == "none"


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_that_javascript_would_round_are_text(number):
    made = tag("k", str(number), INT)
    safe = abs(number) < 2**53

    assert made == {"key": "k", "type": "int64", "value": number if safe else str(number)}
    assert any_value(str(number), INT) == {"intValue": str(number)}


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_nan_and_infinity_are_encoded_as_in_otlp(text):
    assert tag("k", text, DOUBLE) == {"key": "k", "type": "float64", "value": text}
    assert any_value(text, DOUBLE) == {"doubleValue": text}


def test_lists_and_maps_are_values_again():
    assert any_value('{"a":[1,true,null,0.5,"x"]}', MAP) == {
        "kvlistValue": {
            "values": [
                {
                    "key": "a",
                    "value": {
                        "arrayValue": {
                            "values": [
                                {"intValue": "1"},
                                {"boolValue": True},
                                {},
                                {"doubleValue": 0.5},
                                {"stringValue": "x"},
                            ]
                        }
                    },
                }
            ]
        }
    }


def test_types_of_our_own_attributes_come_from_the_contract():
    types = own_types()

    assert types["gen_ai.usage.input_tokens"] == INT
    assert types["llm.cost_usd"] == types["agent.confidence"] == DOUBLE
    assert types["retrieval.is_empty"] == BOOL
    assert "agent.name" not in types
