"""Scores: durable once acknowledged, replaced by id, listed, and averaged per agent."""

import json
from urllib.parse import quote, urlencode

import pytest

from tests.support.collector import http
from tests.support.contract import example


@pytest.fixture
def post(collector):
    def send(scores, *, wait="?wait=stored&timeout=60", to=collector):
        return http("POST", f"{to.url}/v1/scores{wait}", json.dumps(scores).encode())

    return send


def listed(collector, **asked):
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    answer = http("GET", f"{collector.url}/v1/scores?{query}")
    assert answer.status == 200, answer.body
    return answer.json()


def test_each_kind_of_score_value_round_trips(collector, post, trace_id):
    values = [0.5, 3, -1e300, True, False, "kind", "ñ", None]
    scores = [
        {"trace_id": trace_id, "id": f"s{at}", "name": "quality", "value": value, "comment": "c"}
        for at, value in enumerate(values)
    ]

    answer = post(scores)

    assert answer.json() == {
        "accepted": 8,
        "ids": [f"s{at}" for at in range(8)],
        "rejected": [],
        "status": "stored",
    }
    found = {each["id"]: each for each in listed(collector, trace_id=trace_id)["scores"]}
    assert [found[f"s{at}"]["value"] for at in range(8)] == values
    kinds = [found[f"s{at}"]["value_type"] for at in range(8)]
    assert kinds == ["numeric"] * 3 + ["boolean"] * 2 + ["categorical"] * 2 + ["note"]


def test_a_score_with_the_id_of_an_earlier_one_takes_its_place(collector, post, trace_id):
    """Also if it returns to an earlier value, and however often it is sent."""
    for value in (0.1, 0.9, 0.1, 0.1):
        post({"trace_id": trace_id, "id": "one", "name": "quality", "value": value})

    (score,) = listed(collector, trace_id=trace_id)["scores"]
    assert (score["id"], score["value"]) == ("one", 0.1)


def test_a_step_is_scored_and_averaged_for_its_agent(collector, post, trace_id):
    agent = f"agent-{trace_id}"
    event = {**example("agent.execution.completed"), "agent_name": agent, "trace_id": trace_id}
    event |= {"event_id": f"evt-{trace_id}", "execution_id": "exe-1", "span_id": "00f067aa0ba902b7"}
    collector.post_events([event])
    common = {"trace_id": trace_id, "name": "quality"}
    post(
        [
            {**common, "execution_id": "exe-1", "value": 0.4, "source": "judge"},
            {**common, "span_id": "00f067aa0ba902b7", "value": 0.8, "source": "person"},
            {**common, "agent_name": agent, "value": 0.6, "author": "ana"},
            {**common, "value": 1.0},
            {"trace_id": trace_id, "name": "tone", "agent_name": agent, "value": "warm"},
        ]
    )

    scores = listed(collector, trace_id=trace_id, agent=agent, name="quality")["scores"]
    assert sorted(each["value"] for each in scores) == [0.4, 0.6, 0.8]
    answer = http("GET", f"{collector.url}/v1/scores/averages?agent={agent}").json()["averages"]
    by_name = {each["name"]: each for each in answer}
    assert by_name["quality"]["average"] == pytest.approx(0.6)
    assert (by_name["quality"]["scores"], by_name["quality"]["min"]) == (3, 0.4)
    assert by_name["tone"]["categories"] == {"warm": 1}
    few = listed(collector, trace_id=trace_id, min=0.7, max=0.9)["scores"]
    assert [each["source"] for each in few] == ["person"]
    assert [
        each["value"] for each in listed(collector, trace_id=trace_id, min=1, max=1)["scores"]
    ] == [1]
    assert listed(collector, trace_id=trace_id, source="judge")["scores"][0]["value"] == 0.4


def test_a_field_that_scores_do_not_have_is_named(post, trace_id):
    answer = post({"trace_id": trace_id, "name": "n", "value": 1, "colour": "red"})

    assert answer.status == 400
    said = answer.json()["error"]["message"]
    assert said == "no score is acceptable: colour: there is no such field"


def test_scores_are_filtered_by_content_and_source(collector, post, trace_id):
    common = {"trace_id": trace_id, "name": "tone"}
    post(
        [
            {**common, "id": "a", "value": "rude", "author": "ana", "comment": "Señor 李 was hurt"},
            {**common, "id": "b", "value": "warm", "author": "bob", "comment": "as always"},
            {**common, "id": "c", "comment": "señorita: hurt too", "author": "ana"},
            {**common, "id": "d", "value": True, "author": "judge-1"},
        ]
    )

    def found(**asked):
        asked = {name: quote(value) for name, value in asked.items()}
        scores = listed(collector, trace_id=trace_id, **asked)["scores"]
        return sorted(each["id"] for each in scores)

    assert found(category="rude") == ["a"]
    assert found(author="ana") == ["a", "c"]
    assert found(q="HURT") == ["a", "c"]
    assert found(q="hurt 李") == ["a"]
    assert found(q="hur") == found(category="Rude") == found(q="' OR 1=1 --") == []
    assert found(author="ana", category="warm") == []
    answer = http("GET", f"{collector.url}/v1/scores?q=%22").json()
    assert answer["error"]["message"] == "Invalid filter: q: '\"' has no word to search for"


def test_a_long_list_is_read_in_pieces(collector, post, trace_id):
    post([{"trace_id": trace_id, "name": "n", "value": value} for value in range(25)])

    found, before = [], ""
    while True:
        page = listed(
            collector, trace_id=trace_id, limit=10, **({"before": before} if before else {})
        )
        found += [each["value"] for each in page["scores"]]
        before = page["next"]
        if before is None:
            break
    assert found == list(range(24, -1, -1))


@pytest.mark.parametrize(
    ("score", "why"),
    [
        ({"name": "n", "value": 1}, "trace_id"),
        ({"trace_id": "t", "value": 1}, "name"),
        ({"trace_id": "t", "name": "n"}, "comment"),
        ({"trace_id": "t", "name": "n", "value": [1]}, "value"),
        ({"trace_id": "t\n", "name": "n", "value": 1}, "trace_id"),
        ({"trace_id": "t", "name": "n", "value": 1, "extra": 1}, "extra"),
        ({"trace_id": "t", "name": "n" * 201, "value": 1}, "name"),
    ],
)
def test_invalid_score_is_rejected_with_the_reason(post, score, why):
    answer = post(score)

    assert answer.status == 400
    assert why in answer.json()["error"]["message"]


def test_valid_scores_of_a_body_are_accepted(collector, post, trace_id):
    answer = post([{"trace_id": trace_id, "name": "n", "value": 1}, {"name": "n"}, 5]).json()

    assert answer["accepted"] == 1
    assert [each["index"] for each in answer["rejected"]] == [1, 2]


@pytest.mark.fault
def test_an_acknowledged_score_survives_kill_9(new_collector, post):
    running = new_collector(environ={"TRACEREEL_LINGER_SECONDS": "60"}).start()
    for number in range(20):
        score = {"trace_id": "t", "id": f"s{number}", "name": "n", "value": number}
        assert post(score, wait="", to=running).status == 200
    running.kill()
    running.start()
    post({"trace_id": "t", "id": "last", "name": "n", "value": 20}, to=running)

    values = [each["value"] for each in listed(running, trace_id="t")["scores"]]
    assert sorted(values) == list(range(21))
    running.stop()


def test_runs_are_found_by_their_scores(collector, post, trace_id):
    for name, value in (("good", 0.9), ("bad", 0.1), ("rude", "rude")):
        run, agent = f"{trace_id}-{name}", {"agent_name": f"agent-{trace_id}"}
        event = {**example("agent.execution.completed"), **agent, "trace_id": run}
        collector.post_events([{**event, "event_id": f"evt-{run}"}])
        post({"trace_id": run, "id": "one", "name": f"q-{trace_id}", "value": value})

    def found(**asked):
        query = urlencode({"agent": f"agent-{trace_id}", **asked}, doseq=True)
        answer = http("GET", f"{collector.url}/v1/traces?{query}")
        assert answer.status == 200, answer.body
        return sorted(each["trace_id"].rpartition("-")[2] for each in answer.json()["traces"])

    name = f"q-{trace_id}"
    assert found(score=name) == ["bad", "good", "rude"]
    assert found(score=name, min_score=0.5) == ["good"]
    assert found(score=["nobody's", name], max_score=0.1) == ["bad"]
    assert found(score_category="rude") == ["rude"]
    assert found(score="nobody's") == []
    counted = http(
        "GET", f"{collector.url}/v1/traces?score={name}&limit=0&facets=agent&from=2000-01-01"
    ).json()["facets"]
    assert counted["agent"] == [{"value": f"agent-{trace_id}", "runs": 3}]

    post({"trace_id": f"{trace_id}-good", "id": "one", "name": name, "value": 0.2})
    assert found(score=name, min_score=0.5) == []
    assert http("DELETE", f"{collector.url}/v1/traces/{trace_id}-bad").status == 200
    assert found(score=name, max_score=0.5) == ["good"]


def test_tail_refuses_score_filters(collector):
    for parameter in ("score=quality", "min_score=1", "max_score=x", "score_category=rude"):
        answer = http("GET", f"{collector.url}/v1/tail?{parameter}")

        name = parameter.partition("=")[0]
        assert answer.status == 400, parameter
        assert answer.json()["error"]["message"].startswith(
            f"Invalid filter: {name}: records that were only now acknowledged have no scores"
        )
        assert "GET /v1/traces" in answer.json()["error"]["hint"]
    others = http("GET", f"{collector.url}/v1/tail?nonsense=1").json()["error"]["message"]
    assert "score" not in others
