"""Decisions are columns: filters of the search and a view for SQL."""

import json

import pytest

from tests.collector.store.runs_to_find import NOW, at, run
from tracereel_collector.errors import BadRequestError
from tracereel_collector.query.filters import MAX_VALUES, Decided, TraceFilters
from tracereel_collector.query.search import Search, SearchQuery
from tracereel_collector.query.window import parse_window

CANDIDATES = [{"name": "monday", "score": 0.7}, {"value": "friday", "confidence": 0.2}, "never"]


def decision(trace_id, number=0, **fields):
    return {
        "event_id": f"{trace_id}-decision-{number}",
        "event_type": "agent.decision.recorded",
        "trace_id": trace_id,
        "timestamp": at(1),
        "agent_name": "temporal_agent",
        "decision_id": f"dec-{number}",
        "decision_type": "temporal_resolution",
        "decision_category": "resolution",
        **fields,
    }


@pytest.fixture
def found(migrated, tenant):
    searching = Search(migrated, lambda: NOW)

    def ask(**decided):
        question = SearchQuery(
            filters=TraceFilters(decided=Decided(**decided)),
            window=parse_window(None, None, now=NOW),
            limit=50,
        )
        return [each["trace_id"] for each in searching.answer(tenant, question)["traces"]]

    return ask


def test_all_conditions_must_hold_of_one_decision(told, found):
    for number, name in enumerate("abcd"):
        told(*run(name, begin=number))
    told(
        decision("a", chosen="monday", confidence=0.9, threshold=0.5),
        decision("b", chosen="friday", confidence=0.4, threshold=0.5),
        decision("b", 1, decision_type="routing", decision_category="choice", chosen="monday"),
        decision("c", chosen={"day": 1}, agent_name="other"),
    )

    assert found(types=("temporal_resolution",)) == ["c", "b", "a"]
    assert found(types=("routing", "nothing")) == ["b"]
    assert found(categories=("choice",)) == ["b"]
    assert found(agents=("other",)) == ["c"]
    assert found(chosen=("monday",)) == ["b", "a"]
    assert found(chosen=('{"day":1}',)) == ["c"]
    assert found(types=("temporal_resolution",), chosen=("monday",)) == ["a"]
    assert found(least=0.5) == ["a"]
    assert found(most=0.5) == ["b"]
    assert found(below_threshold=True) == ["b"]
    assert found(types=("'; DROP TABLE agent_events --", "{tenant:String}")) == []
    assert len(found()) == 4


def test_too_many_values_are_refused(found):
    with pytest.raises(BadRequestError, match=f"decision_type: {MAX_VALUES + 1} values"):
        found(types=("x",) * (MAX_VALUES + 1))


def test_the_view_has_each_decision_once_with_its_candidates(told, migrated, tenant):
    made = decision(
        "a", chosen="monday", confidence=0.7, threshold=0.6, candidates=CANDIDATES, reasoning="free"
    )
    told(*run("a"), made, decision("a", 1, confidence=None, candidates=None))
    told(made)

    statement = "SELECT * FROM decisions WHERE tenant = {tenant:String} ORDER BY decision_id"
    rows = migrated.select(statement, {"tenant": tenant}, fmt="JSONEachRow")
    first, second = [json.loads(line) for line in rows.splitlines()]

    assert (first["decision_type"], first["decision_category"]) == (
        "temporal_resolution",
        "resolution",
    )
    assert (first["agent_name"], first["chosen"]) == ("temporal_agent", "monday")
    assert (first["confidence"], first["threshold"], first["reasoning"]) == (0.7, 0.6, "free")
    assert first["candidate_names"] == ["monday", "friday", "never"]
    assert first["candidate_scores"] == [0.7, 0.2, None]
    assert (second["chosen"], second["confidence"], second["threshold"]) == ("", None, None)
    assert (second["candidate_names"], second["candidate_scores"]) == ([], [])
