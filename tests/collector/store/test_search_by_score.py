"""Run search by current scores; replaced scores do not match."""

import json

import pytest

from tests.collector.store.conftest import insert_body
from tests.collector.store.runs_to_find import NOW, at, run, span, spans_request
from tracereel_collector.errors import BadRequestError
from tracereel_collector.ingest.scores import check_scores
from tracereel_collector.model import Kind
from tracereel_collector.query.filters import Scored, TraceFilters
from tracereel_collector.query.search import Search, SearchQuery
from tracereel_collector.query.window import parse_window
from tracereel_collector.store.deletion import delete_rows, runs_of


@pytest.fixture
def thought(migrated, sequence, tenant):
    """Store scores as ingest receives them."""

    def insert(*scores, tenant=tenant):
        checked = check_scores(json.dumps(scores).encode(), now_unix_nano=NOW, redactor=None)
        assert not checked.rejected
        data = b"\n".join(checked.lines)
        insert_body(migrated, Kind.SCORES, data, len(scores), tenant, sequence)

    return insert


@pytest.fixture
def found(migrated, tenant):
    searching = Search(migrated, lambda: NOW)

    def ask(*, tenant=tenant, start=None, filters=None, limit=50, cursor=None, **scored):
        asked = TraceFilters(**(filters or {}), scored=Scored(**scored))
        window = parse_window(start, None, now=NOW)
        question = SearchQuery(filters=asked, window=window, limit=limit, cursor=cursor)
        return searching.answer(tenant, question)

    return ask


def ids(answer):
    return [each["trace_id"] for each in answer["traces"]]


def test_name_value_and_category_must_hold_of_one_score(told, thought, found):
    for number, name in enumerate("abcdef"):
        told(*run(name, begin=number))
    thought(
        {"trace_id": "a", "name": "quality", "value": 0.9},
        {"trace_id": "b", "name": "quality", "value": 0.2},
        {"trace_id": "b", "name": "speed", "value": 0.9},
        {"trace_id": "c", "name": "correct", "value": False},
        {"trace_id": "d", "name": "tone", "value": "rude", "execution_id": "exe"},
        {"trace_id": "e", "name": "quality", "comment": "look at this"},
    )

    assert ids(found(names=("quality",))) == ["e", "b", "a"]
    assert ids(found(names=("quality",), least=0.5)) == ["a"]
    assert ids(found(names=("quality",), least=0.2, most=0.2)) == ["b"]
    assert ids(found(least=0.5)) == ["b", "a"]
    assert ids(found(names=("correct",), most=0)) == ["c"]
    assert ids(found(names=("correct", "speed"))) == ["c", "b"]
    assert ids(found(categories=("rude", "warm"))) == ["d"]
    assert ids(found(names=("tone",), most=1e9)) == []
    assert ids(found(names=("quality",), categories=("rude",))) == []
    assert ids(found(names=("'; DROP TABLE score_tellings --", "{tenant:String}"))) == []
    assert len(ids(found())) == 6


def test_score_filter_combines_with_filters_window_and_pages(told, thought, found):
    for number in range(7):
        told(*run(f"r{number}", begin=number * 9000, agent=f"a{number % 2}"))
        if number != 3:
            thought({"trace_id": f"r{number}", "name": "ok", "value": number})

    assert ids(found(names=("ok",), filters={"tags": {"agent": ("a1",)}})) == ["r5", "r1"]
    assert ids(found(names=("ok",), start=at(40000))) == ["r6", "r5"]
    first = found(names=("ok",), limit=4)
    assert ids(first) == ["r6", "r5", "r4", "r2"]
    assert ids(found(names=("ok",), limit=4, cursor=first["next"])) == ["r1", "r0"]
    with pytest.raises(BadRequestError, match="cursor"):
        found(names=("other",), limit=4, cursor=first["next"])


def test_replaced_scores_do_not_match(told, thought, found):
    told(*run("changed"), *run("renamed", begin=5), *run("noted", begin=9))
    for name in ("changed", "renamed", "noted"):
        thought({"trace_id": name, "id": "one", "name": "quality", "value": 0.1})
    thought(
        {"trace_id": "changed", "id": "one", "name": "quality", "value": 0.9},
        {"trace_id": "renamed", "id": "one", "name": "speed", "value": 0.1},
        {"trace_id": "noted", "id": "one", "name": "quality", "comment": "cannot say"},
    )

    assert ids(found(names=("quality",), most=0.5)) == []
    assert ids(found(names=("quality",))) == ["noted", "changed"]
    assert ids(found(names=("speed",))) == ["renamed"]


def test_score_of_a_deleted_run_does_not_match_late_events(migrated, told, thought, found, tenant):
    told(*run("gone"), *run("stays", begin=5))
    for name in ("gone", "stays"):
        thought({"trace_id": name, "name": "quality", "value": 1})
    delete_rows(migrated, runs_of(migrated, tenant, ["gone"]))
    told(*run("gone"))

    assert ids(found(names=("quality",))) == ["stays"]
    assert len(ids(found())) == 2


def test_runs_whose_spans_come_from_elsewhere_are_found_with_all_of_them(
    told, thought, spans, found
):
    told(*run("trc_own", otel_trace_id="ab" * 16, span_id="cd" * 8))
    spans(spans_request(span(1, **{"gen_ai.request.model": "m1"})))
    spans(spans_request(span(7), trace=b"\x07" * 16))
    thought({"trace_id": "trc_own", "name": "quality", "value": 1})

    (answer,) = found(names=("quality",))["traces"]
    assert (answer["trace_id"], answer["spans"], answer["models"]) == ("trc_own", 1, ["m1"])


def test_another_tenants_scores_find_nothing(told, thought, found):
    told(*run("shared"))
    thought({"trace_id": "shared", "name": "quality", "value": 1}, tenant="bravo")

    assert ids(found(names=("quality",))) == []


@pytest.mark.parametrize("field", ["names", "categories"])
def test_too_many_at_once_are_refused(found, field):
    with pytest.raises(BadRequestError, match="21 values at once; expected at most 20"):
        found(**{field: tuple(map(str, range(21)))})
