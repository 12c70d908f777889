"""Checks of the event contract: fields, emission, printed examples."""

from tests.seeds.registry import check, collector_check
from tests.seeds.types import is_of_type
from tests.support.contract import example
from tracereel import traced_agent
from tracereel.testing import EventRecorder

COMPLETED = "agent.execution.completed"
FAILED = "agent.execution.failed"


@check
def event_field(row, evidence):
    """A required field has its type in every event; others at least where they are declared."""
    name, wanted = row["field"], row["type"]
    declared = [event[name] for event in evidence.declared.of(row["event"])]
    plain = [event[name] for event in evidence.plain.of(row["event"])]
    may_be_null = row.status == "deviates" or wanted.startswith("Optional")
    assert declared
    assert plain
    for value in (*declared, *plain):
        assert (value is None and may_be_null) or is_of_type(value, wanted), value
    assert any(value is not None for value in declared), f"{name} is null in every event"
    if "default" in row.options:
        assert row["default"] in plain


@check
def emits(row, evidence):
    assert evidence.declared.of(row["event"])
    assert evidence.plain.of(row["event"])


@collector_check
def example_round_trip(row, evidence):
    """Stored as it was sent; the replay may fill in outcomes that were not known yet."""
    printed = example(row["event"])
    stored, replayed = evidence.examples[row["event"]]
    assert {name: stored[name] for name in printed} == printed
    known = {name: value for name, value in printed.items() if value is not None}
    assert {name: replayed[name] for name in known} == known


@collector_check
def summary_limit(row, evidence):
    with EventRecorder() as recorder:
        traced_agent("long")(lambda prompt: prompt)("word " * 200)
    assert 150 < len(recorder.get_events()[0]["input_summary"]) <= 200
    long = {**example("agent.execution.started"), "event_id": "evt_long", "trace_id": "trc_long"}
    evidence.store([{**long, "input_summary": "x" * 500}])
    (entry,) = evidence.replay("trc_long")["timeline"]
    assert entry["details"]["input_summary"] == "x" * 500


EXPECTED = {
    "attribute_agent": {
        "confidence": 0.9,
        "decision_type": "slot_choice",
        "reasoning": "the first free one",
    },
    "key_agent": {
        "confidence": 0.8,
        "decision_type": "slot_choice",
        "reasoning": "it was asked for",
    },
    "pydantic_agent": {
        "confidence": 0.7,
        "decision_type": "slot_choice",
        "reasoning": "the only one",
    },
    "deciding_agent": {
        "confidence": 0.6,
        "decision_type": "slot_choice",
        "reasoning": "two are free",
    },
    "retried_agent": {"confidence": None, "decision_type": None, "reasoning": None},
}
"""Agent → what its result or its last decision says; null if neither does."""


@check
def read_from_result(row, evidence):
    name = row["field"]
    found = {event["agent_name"]: event[name] for event in evidence.plain.of(COMPLETED)}
    assert {agent: found[agent] for agent in EXPECTED} == {
        agent: fields[name] for agent, fields in EXPECTED.items()
    }
    (parsing,) = [e for e in evidence.declared.of(COMPLETED) if e["agent_name"] == "parsing_agent"]
    assert is_of_type(parsing[name], row["type"])


def _entry(document, event_type, agent):
    (found,) = [
        entry["details"]
        for entry in document["timeline"]
        if entry["event"] == event_type and entry["details"].get("agent_name") == agent
    ]
    return found


@collector_check
def fallback_outcome(row, evidence):
    """Known when the event is written if the fallback ran inside; else the replay has it."""
    written = {event["agent_name"]: event[row["field"]] for event in evidence.plain.of(FAILED)}
    assert written["guarded_agent"] is False
    assert written["broken_agent"] is None
    assert _entry(evidence.stored_plain, FAILED, "primary_agent")[row["field"]] is True
    assert _entry(evidence.stored_plain, FAILED, "broken_agent")[row["field"]] is None


@collector_check
def retry_outcome(row, evidence):
    (written,) = evidence.plain.of("agent.retry.attempted")
    assert written["retry_successful"] is None
    read = _entry(evidence.stored_plain, "agent.retry.attempted", "retried_agent")
    assert read["retry_successful"] is True
    again = [
        entry["details"]["retry_successful"]
        for entry in evidence.stored_declared["timeline"]
        if entry["event"] == "agent.retry.attempted"
        and entry["details"]["agent_name"] == "guarded_agent"
    ]
    assert again == [False]


@collector_check
def sequence_as_run(row, evidence):
    """Declared in the started event; as it ran in the completed one, and in both when read back."""
    (declared,) = evidence.declared.of("agent.pipeline.started")
    assert is_of_type(declared[row["field"]], row["type"])
    ran = list(dict.fromkeys(e["agent_name"] for e in evidence.plain.of("agent.execution.started")))
    (completed,) = evidence.plain.of("agent.pipeline.completed")
    expected = {"agent_sequence": ran, "sequence_length": len(ran)}
    assert completed[row["field"]] == expected[row["field"]]
    (started,) = [
        entry["details"]
        for entry in evidence.stored_plain["timeline"]
        if entry["event"] == "agent.pipeline.started"
    ]
    assert started[row["field"]] == expected[row["field"]]
