"""Data that is kept as its JSON text is bounded and cleaned as if it were looked at value by value."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tracereel import _values, _written
from tracereel._layouts import Layouts
from tracereel._privacy import LABELS, Privacy
from tracereel.redaction import Redaction, Rule

SECRETS = (
    "sk-ant-api03-abcdefghijkl",
    'password": "hunter2"',
    '{"api_key":"abcdefgh"}',
    "ana@example.org",
    "4111 1111 1111 1111",
    "Bearer abcdefgh12345678",
    "token=abcdefgh12345678",
)
PIECES = (*SECRETS, "\\", '"', "\n", "\t", ":", ",", "[{", "}]", "é", "\x01", " ", "weather")
texts = st.lists(st.sampled_from(PIECES), max_size=5).map("".join) | st.text(max_size=20)
keys = st.sampled_from(["role", "content", "password", "api key", ":", 'a"b', "x" * 150]) | texts
data = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@given(data)
@example({"a": [":x"], "password": "y"})
@example(["x", ":y", {"password": "z"}])
def test_what_is_cleaned_as_text_is_what_is_cleaned_as_data(value: Any) -> None:
    found = _written.written(value)
    if found is None:
        return
    as_it_came = _written.taken(bytes(found.raw))
    for rules in (Redaction(), Redaction(rules=[Rule("own", "weather|\n")])):
        privacy = Privacy(rules, capture_content=True)
        as_text: dict[str, Any] = {"event_type": "x", "input_messages": found}
        as_data = {"event_type": "x", "input_messages": msgspec.json.decode(found.raw)}
        privacy.clean(as_text)
        privacy.clean(as_data)
        assert msgspec.json.decode(_values.encode(as_text)) == as_data
        if as_it_came is not None:
            as_text = {"event_type": "x", "input_messages": as_it_came}
            privacy.clean(as_text)
            assert msgspec.json.decode(_values.encode(as_text)) == as_data


@given(data)
def test_what_is_kept_as_text_would_not_have_been_cut(value: Any) -> None:
    found = _written.written(value)
    if found is not None:
        assert msgspec.json.decode(found.raw) == value


@given(data)
def test_keys_are_told_from_texts(value: Any) -> None:
    found = _written.taken(msgspec.json.encode(value))
    if found is not None and found.texts is not None:
        shown = [json.loads(f'"{key}"'.replace("\\'", '\\"')) for key in found.keys]
        assert shown == _keys(value)


def _keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [name for key, each in value.items() for name in (key, *_keys(each))]
    return [key for each in value for key in _keys(each)] if isinstance(value, list) else []


def _nested(depth: int) -> Any:
    return [_nested(depth - 1)] if depth else 0


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (_nested(12), True),
        (_nested(13), False),
        ([{"content": "[" * 500}], True),
        ([_nested(11), *(["]", "["] for _ in range(20)), _nested(14)], False),
        (["x" * 16_000], True),
        (["x" * 16_384], False),
        ([0] * 1_500, True),
        ([0] * 2_500, False),
        ([2**63], False),
        (["\ud800"], False),
    ],
)
def test_what_is_too_much_for_an_event_is_not_kept_as_text(value: Any, kept: bool) -> None:
    assert (_written.written(value) is not None) is kept


def test_keys_of_json_with_blanks_in_it_are_found() -> None:
    found = _written.taken(b'{\n  "password" : "x", "role": ["a"]}')
    assert found is not None
    assert (found.texts, found.keys) == (["password", "x", "role", "a"], ["password", "role"])
    assert b"\n" not in bytes(found.raw)  # an event is one line


def test_an_event_that_cannot_be_written_at_once_keeps_what_is_written_in_it() -> None:
    event = {"output": "\ud800", "input_messages": msgspec.Raw(b'["at ten"]')}
    assert json.loads(_values.encode(event)) == {"output": "�", "input_messages": ["at ten"]}


def test_fields_of_the_same_names_are_looked_at_by_what_they_hold() -> None:
    layouts = Layouts(LABELS, {"hlc"})
    assert layouts.of({"note": 1, "hlc": "x"}).texts({"note": 1}) == ()
    assert layouts.of({"note": "a", "hlc": "x"}).texts({"note": "a"}) == ("a", "a")
    assert layouts.of({"note": ["a"], "hlc": "x"}).others == ("note",)
    assert layouts.of({"status": "ok"}).labels({"status": "ok"}) == ("ok", "ok")
    asked = layouts.of({"request_id": "r", "note": "a", "more": "b"})
    assert asked.has_request_id
    assert asked.texts({"note": "a", "more": "b"}) == ("a", "b")


def test_a_value_whose_class_cannot_be_hashed_is_looked_at() -> None:
    class Meta(type):
        __hash__ = None  # type: ignore[assignment]

    class Odd(metaclass=Meta):
        def __init__(self) -> None:
            self.password = "hunter2"

    event: dict[str, Any] = {"event_type": "x", "result": Odd()}
    Privacy(Redaction(), capture_content=True).clean(event)
    assert event["result"] == {"password": "[redacted:field]"}
