"""What the model of a run takes from an event, whatever the event holds."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracereel_collector.query.run.events import TEXT, StoredEvent, _Facts, event_row

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


def row(payload, **options):
    stored = StoredEvent(
        *(1, "", 0, 0, "evt", "custom.x", "trc"), *[""] * 10, 0, *[""] * 3, *[None] * 2, "", "",
        *[None] * 4, *[""] * 3, payload,
    )  # fmt: skip
    return event_row(stored, **{"whole": False, **options})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(_Facts.__struct_fields__), VALUES, max_size=8))
def test_any_value_in_any_field_is_read(fields):
    """Users' own events may call their fields what they like."""
    made = row(json.dumps(fields))

    assert isinstance(made.reasoning, str)
    assert isinstance(made.input, str)
    assert made.attempt is None or made.attempt >= 0


def test_inputs_are_told_apart_beyond_what_is_shown():
    one, other = ("x" * TEXT + each for each in "ab")
    left, right = (row(json.dumps({"arguments": {"q": each}})) for each in (one, other))

    assert left.input == right.input
    assert left.input_hash != right.input_hash
    assert row('{"arguments": null, "input_summary": ""}').input_hash == 0


def test_the_payload_comes_only_where_it_is_wanted():
    assert row("{}").payload == ""
    assert row("{}", whole=True).payload == "{}"
    assert row("not json").reasoning == ""
