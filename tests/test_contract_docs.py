"""The published schema matches the contract, and the contract's examples are valid."""

import pytest
from pydantic import ValidationError

from tests.support.contract import EXAMPLES, example
from tracereel.events import EVENT_TYPES, Envelope, UnknownEventTypeError, parse_event
from tracereel.events_schema import json_schema


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: event["event_type"])
def test_an_example_keeps_its_fields_through_the_model(event):
    dumped = parse_event(event).model_dump(mode="json")

    assert {key: dumped[key] for key in event} == event


def test_all_eight_types_of_the_contract_have_an_example():
    assert {each["event_type"] for each in EXAMPLES} < set(EVENT_TYPES)
    assert len(EXAMPLES) == 8


def test_a_timestamp_without_a_zone_is_utc():
    event = example("agent.retry.attempted")

    parsed = parse_event({**event, "timestamp": "2026-01-23T10:00:35"})

    assert parsed.timestamp == parse_event(event).timestamp


def test_unknown_fields_are_kept():
    assert parse_event({**EXAMPLES[0], "ours": 1}).model_extra == {"ours": 1}


def test_unknown_event_type_is_refused_by_name():
    with pytest.raises(UnknownEventTypeError, match=r"'agent\.magic' is unknown"):
        parse_event({**EXAMPLES[0], "event_type": "agent.magic"})


@pytest.mark.parametrize("version", ["2.0.0", "0.9", "1", "one"])
def test_another_major_version_is_refused(version):
    with pytest.raises(ValidationError, match="event_version"):
        parse_event({**EXAMPLES[0], "event_version": version})


def test_the_schema_says_when_a_field_of_the_contract_is_null():
    definitions = json_schema()["$defs"]
    ours = set(Envelope.model_fields) - {"user_id"}
    for event in EXAMPLES:
        properties = definitions[EVENT_TYPES[event["event_type"]].__name__]["properties"]
        for name in event.keys() - ours:
            if {"type": "null"} in properties[name].get("anyOf", ()):
                assert properties[name]["description"].startswith("Null "), name
