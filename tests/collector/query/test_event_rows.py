"""Event rows as the run model reads them, whatever the event contains."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracereel._runtime.clock import otel_trace_id
from tracereel_collector.query.run.events import (
    _FIELDS,
    TEXT,
    StoredEvent,
    event_rows,
    fill_sessions,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


def row(payload, **options):
    (made,) = event_rows([StoredEvent(1, "", 0, 7, payload)], **{"whole": False, **options})
    return made


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(sorted(_FIELDS)), VALUES, max_size=8))
def test_any_value_in_any_field_is_read(fields):
    """Custom events may use any field names."""
    made = row(json.dumps(fields))

    assert isinstance(made.reasoning, str)
    assert isinstance(made.input, str)
    assert made.attempt is None or made.attempt >= 0
    assert made.delay_seconds is None or isinstance(made.delay_seconds, float)
    assert (made.sequence_number, made.hlc) == (1, 7)
    assert isinstance(made.agent_name, str)


def test_one_field_that_holds_something_else_does_not_hide_the_others():
    made = row(
        json.dumps(
            {
                "reasoning": "x" * (TEXT + 1),
                "attempt": -1,
                "retry_attempt": 2,
                "span_name": {"a": 1},
                "delay_seconds": 3,
                "fallback_successful": "yes",
                "chosen": ["b"],
            }
        )
    )

    assert made.reasoning == "x" * TEXT
    assert (made.attempt, made.retry_attempt, made.fallback_successful) == (None, 2, None)
    assert (made.span_name, made.delay_seconds, made.chosen) == ('{"a":1}', 3.0, '["b"]')


def test_input_hash_covers_the_part_that_is_cut_off():
    one, other = ("x" * TEXT + each for each in "ab")
    left, right = (row(json.dumps({"arguments": {"q": each}})) for each in (one, other))

    assert left.input == right.input
    assert left.input_hash != right.input_hash
    assert row('{"arguments": null, "input_summary": ""}').input_hash == 0


def test_missing_fields_get_the_store_defaults():
    made = row('{"event_type": "agent.execution.failed", "trace_id": "trc", "agent_name": null}')

    assert (made.status, made.agent_name) == ("failed", "")
    assert made.otel_trace_id == otel_trace_id("trc")
    said = (
        '{"event_type": "agent.x", "status": "odd", "otel_trace_id": "%s", "final_confidence": 1}'
    )
    assert row(said % ("a" * 32)).otel_trace_id == "a" * 32
    assert row(said % "").status == "odd"
    assert row(said % "").confidence == 1.0
    assert row('{"duration_ms": 5, "total_execution_time_ms": 3}').duration_ms == 3


def test_payload_is_read_only_on_request():
    assert row("{}").payload == ""
    assert row("{}", whole=True).payload == "{}"
    assert row("not json").reasoning == ""


def filled(*events, named=()):
    """Return the sessions of events, by model and by payload, as they are read back."""
    rows = [row(json.dumps(event), whole=True) for event in events]
    fill_sessions(rows, named)
    for made in rows:
        assert (json.loads(made.payload).get("session_id") or "") == made.session_id
    return [made.session_id for made in rows]


RUN = {"trace_id": "trc_1"}


def test_events_of_a_run_with_one_session_have_it():
    own = {"execution_id": "e1", "session_id": "s1"}
    others = [RUN, {**RUN, "session_id": None}, {**RUN, "execution_id": "e2"}]

    assert filled(*others, {**RUN, **own}, {"trace_id": "trc_2"}) == ["s1"] * 4 + [""]
    assert filled(RUN, named=[("trc_1", "s1"), ("trc_2", "s2")]) == ["s1"]


def test_events_of_a_run_with_several_sessions_have_that_of_their_execution():
    events = [
        {**RUN, "execution_id": execution, **({"session_id": session} if session else {})}
        for execution, session in (("e0", ""), ("e1", ""), ("e1", "s1"), ("e2", ""), ("e2", "s2"))
    ]

    assert filled(*events, RUN) == ["", "s1", "s1", "s2", "s2", ""]
    assert filled(*events[:3], named=[("trc_1", "s2")]) == ["", "s1", "s1"]
