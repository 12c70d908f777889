"""Records that match a live filter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.contract import EXAMPLES, example
from tracereel._redact.event_redaction import hashed
from tracereel_collector.live.filters import VALUES, TailFilter

FAILED = {
    **example("agent.execution.failed"),
    "session_id": "ses_1",
    "user_id": "usr_1",
    "service": "clinic",
}


def passes(fields, **wanted):
    values = {name: tuple(wanted.pop(name)) for name in VALUES if name in wanted}
    return TailFilter(values=values, **wanted).test()(fields)


@pytest.mark.parametrize("fields", EXAMPLES, ids=lambda each: each["event_type"])
def test_a_filter_without_conditions_lets_everything_through(fields):
    assert passes(fields)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("type", "event_type"),
        ("agent", "agent_name"),
        ("trace", "trace_id"),
        ("session", "session_id"),
        ("user", "user_id"),
        ("service", "service"),
        ("error", "error_type"),
        ("category", "error_category"),
        ("code", "error_code"),
    ],
)
def test_a_condition_wants_the_very_value_or_one_of_several(name, field):
    value = FAILED[field]

    assert passes(FAILED, **{name: [value]})
    assert passes(FAILED, **{name: ["other", value]})
    assert not passes(FAILED, **{name: ["other"]})
    assert not passes({}, **{name: [value]})
    assert not passes({field: [value]}, **{name: [value]})


@pytest.mark.parametrize(("name", "field"), [("user", "user_id"), ("session", "session_id")])
def test_an_id_that_is_stored_as_a_hash_is_found_by_the_id(name, field):
    test = TailFilter(values={name: ("ana@example.com",)}).test()

    assert test({field: hashed("ana@example.com")})
    assert not test({field: hashed("eva@example.com")})


def test_conditions_hold_together():
    assert passes(FAILED, agent=[FAILED["agent_name"]], session=["ses_1"])
    assert not passes(FAILED, agent=[FAILED["agent_name"]], session=["ses_2"])


@pytest.mark.parametrize(
    ("measure", "fields"),
    [
        ("duration_ms", {"execution_time_ms": 120}),
        ("duration_ms", {"duration_ms": 120}),
        ("cost_usd", {"llm_cost_usd": 120.0}),
        ("tokens", {"llm_tokens_used": 120}),
        ("confidence", {"confidence": None, "final_confidence": 120}),
    ],
)
def test_a_range_wants_a_number_within_it(measure, fields):
    def is_shown(record, least, most):
        return TailFilter(least={measure: least}, most={measure: most}).test()(record)

    assert is_shown(fields, 120, 120)
    assert not is_shown(fields, 121, 200)
    assert not is_shown(fields, 0, 119)
    assert not is_shown({}, 0, 200)
    assert not is_shown(dict.fromkeys(fields, True), 0, 200)
    assert not is_shown(dict.fromkeys(fields, "120"), 0, 200)


def test_a_type_that_ends_in_a_dot_means_all_that_begin_so():
    assert passes(FAILED, type=["agent.execution."])
    assert not passes(FAILED, type=["agent.pipeline."])
    assert not passes(FAILED, type=["agent.execution"])


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"event_type": "agent.execution.completed"}, "success"),
        ({"event_type": "agent.execution.failed"}, "failed"),
        ({"event_type": "agent.execution.cancelled"}, "cancelled"),
        ({"event_type": "agent.pipeline.completed", "status": "failed"}, "failed"),
    ],
)
def test_status_is_the_events_field_or_derived_from_its_type(fields, status):
    assert passes(fields, status=[status])
    assert not passes(fields, status=["running"])


def test_an_agent_is_found_on_both_ends_of_a_fallback():
    fields = example("agent.fallback.triggered")

    assert passes(fields, agent=[fields["primary_agent"]])
    assert passes(fields, agent=[fields["fallback_agent"]])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("MAÑANA", True),
        ("cita pérez", True),
        ('deep "cita mañana"', True),
        ('"mañana cita"', False),
        ("maña", False),
        ("cita ayer", False),
        ("evt_secret", False),
    ],
)
def test_text_is_looked_for_in_prompts_and_outputs_whatever_the_case(text, found):
    fields = {
        "event_id": "evt_secret",
        "user_prompt": "una Cita mañana",
        "output_summary": "con el Dr. Pérez",
        "output_messages": [{"parts": [{"content": "very Deep"}]}],
    }

    assert passes(fields, text=text) is found


def test_attributes_are_fields_by_name_as_text_or_as_json():
    fields = {"tier": "gold", "seats": 3, "vip": True}

    assert passes(fields, attribute=[("tier", "gold"), ("seats", "3"), ("vip", "true")])
    assert not passes(fields, attribute=[("tier", "gold"), ("seats", "4")])
    assert not passes(fields, attribute=[("missing", "null")])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
NAMES = st.sampled_from(
    ["event_type", "agent_name", "status", "trace_id", "user_prompt", "arguments", "llm_model"]
)


@given(st.dictionaries(NAMES | st.text(), JSON), st.text(max_size=5))
def test_filters_accept_any_event(fields, word):
    values = dict.fromkeys(("type", "agent", "status", "trace", "model"), (word,))
    wanted = TailFilter(values=values, text=word)

    assert wanted.test()(fields) in (True, False)


@pytest.mark.parametrize(
    ("text", "query", "is_shown"),
    [
        ("The Report of TODAY", "report", True),
        ("The Report of TODAY", "repor", False),
        ("The Report of TODAY", '"rt of tod"', True),
        ("The Report of TODAY", '"rt of tod" THE', True),
        ("The Report of TODAY", '"rt of tod" other', False),
        ("Straße und Ärger", "ärger", True),
        ("aaa", "aa", False),
    ],
)
def test_words_stand_alone_and_phrases_anywhere_in_any_case(text, query, is_shown):
    assert passes({"reasoning": text}, text=query) is is_shown
