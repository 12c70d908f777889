"""Stored fleet replays: the command, the API, and the page with a run beside its replay."""

import json
import re
import uuid

import pytest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE_MS
from tests.support.collector import http
from tests.support.desk import Desk
from tests.support.recorded_desk import record_into
from tests.support.stored_fleets import fleet_events

expect.set_options(timeout=PATIENCE_MS)
MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def stored(collector, tmp_path_factory):
    """Return the report of a fleet replay that was stored, its id, and the program."""
    folder = tmp_path_factory.mktemp("fleet")
    desk = Desk(folder / "program").write()
    name = f"desk-{uuid.uuid4().hex[:8]}"
    desk.change('@traced_pipeline("desk")', f'@traced_pipeline("{name}")')
    record_into(collector, desk, name, 6)
    at, path = ("--endpoint", collector.url), folder / "runs.fleet"
    assert desk.fleet("pull", "-o", path, "--pipeline", name, *at).returncode == 0
    desk.change('["number", "total"])', '["total"])')
    desk.change('"said": said}', '"said": "none" if number == 5 else said}')
    done = desk.fleet("run", path, "--json", "--keep", "--name", f"try {MARKUP}", *at)
    assert done.returncode == 1, done.stderr
    (fleet_id,) = re.findall(r"stored: \S+/#/fleet/(fleet_\w+)\n", done.stderr)
    return json.loads(done.stdout), fleet_id, desk, path


def fetched(collector, path):
    answer = http("GET", f"{collector.url}{path}")
    return answer.status, answer.json()


def test_the_report_is_stored_without_content_of_runs(collector, stored):
    report, fleet_id, desk, _ = stored
    status, fleet = fetched(collector, f"/v1/fleets/{fleet_id}")

    assert status == 200
    assert fleet["name"] == f"try {MARKUP}"
    same = ("counts", "coverage", "passed", "failures", "runs", "flaky", "cpu_seconds")
    assert {name: fleet[name] for name in same} == {name: report[name] for name in same}
    assert [
        (each["verdict"], each["cause"]["place"], each["count"], each["runs"])
        for each in fleet["groups"]
    ] == [
        (each["verdict"], each["cause"]["place"], each["count"], each["runs"])
        for each in report["groups"]
    ]
    assert "the arguments are not those" not in json.dumps(fleet)
    listed = fetched(collector, "/v1/fleets?limit=100")[1]["fleets"]
    assert [each["name"] for each in listed if each["fleet_id"] == fleet_id] == [fleet["name"]]
    assert not desk.counter.exists()


def test_each_report_is_stored_with_its_run(collector, stored):
    report, fleet_id, _, _ = stored

    for group in report["groups"]:
        for trace_id in group["runs"]:
            _, found = fetched(collector, f"/v1/traces/{trace_id}/replayable")
            (replay,) = (each for each in found["replays"] if each["fleet"] == fleet_id)
            assert replay["verdict"] == group["verdict"]
            assert replay["text"].startswith(f"The run of {trace_id} left its tape")
            assert found["replayable"] == "yes"
            # A note is no event of the run.
            assert (
                fetched(collector, f"/v1/traces/{trace_id}/completeness")[1]["verdict"]
                == "complete"
            )


def test_a_stored_fleet_is_no_run(collector, stored):
    _, fleet_id, _, _ = stored

    listed = fetched(collector, "/v1/traces?limit=500")[1]["traces"]
    assert fleet_id not in {each["trace_id"] for each in listed}


def test_a_file_of_verdicts_is_stored_later(collector, stored):
    _, _, desk, path = stored
    done = desk.fleet(
        *("report", f"{path}.verdicts.ndjson", "--keep", "--name", "later"),
        *("--endpoint", collector.url),
    )

    (fleet_id,) = re.findall(r"stored: \S+/#/fleet/(fleet_\w+)\n", done.stdout)
    assert fetched(collector, f"/v1/fleets/{fleet_id}")[1]["name"] == "later"


def test_a_collector_that_is_away_is_an_error_after_the_report(stored):
    _, _, desk, path = stored
    verdicts = f"{path}.verdicts.ndjson"
    done = desk.fleet("report", verdicts, "--keep", "--endpoint", "http://127.0.0.1:9")

    assert done.returncode == 2
    assert "6 runs: 3 same, 3 changed" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "broken",
    [{"runs": "many"}, {"time": None}, {"counts": {"same": "x"}}, {"r": "other"}],
    ids=str,
)
def test_a_fleet_of_another_form_is_left_out(collector, broken):
    fleet_id = f"fleet_{uuid.uuid4().hex}"
    assert collector.post_events(fleet_events(fleet_id, **broken)).status == 200

    assert fetched(collector, f"/v1/fleets/{fleet_id}")[0] == 404
    listed = fetched(collector, "/v1/fleets?limit=100")[1]["fleets"]
    assert fleet_id not in {each["fleet_id"] for each in listed}


def test_fleets_are_listed_in_pages(collector):
    # The ids begin with the time; these are the latest.
    ids = [f"fleet_f{number}_{uuid.uuid4().hex}" for number in range(5)]
    events = [event for each in ids for event in fleet_events(each, name=each)]
    assert collector.post_events(events).status == 200

    found, before = [], ""
    for _ in range(3):
        _, answer = fetched(collector, f"/v1/fleets?limit=2{before}")
        found += [each["fleet_id"] for each in answer["fleets"]]
        before = f"&before={answer['next']}"

    assert found[:5] == sorted(ids, reverse=True)
    assert fetched(collector, "/v1/fleets/nobody")[0] == 404
    assert fetched(collector, "/v1/fleets?limit=101")[0] == 400


def test_the_page_leads_from_a_verdict_to_a_run_beside_its_replay(visit, stored):
    report, fleet_id, _, _ = stored
    page = visit.open("#/fleets")
    row = page.locator(".fleets tbody tr", has_text=f"try {MARKUP}")
    expect(row).to_contain_text("failed")
    row.get_by_role("link").click()

    expect(page).to_have_url(re.compile(f"#/fleet/{fleet_id}"))
    expect(page.locator("h1")).to_have_text(f"try {MARKUP}")
    expect(page.locator(".fleet .notice")).to_have_text("3 runs are changed")
    causes = page.locator(".cause")
    expect(causes).to_have_count(2)
    expect(causes.first).to_contain_text("2 runs changed: other arguments")
    expect(causes.first.locator("dd").first).to_have_text(report["groups"][0]["cause"]["place"])

    causes.first.locator(".fleet-runs a").first.click()
    pair = causes.first.locator(".fleet-pair")
    expect(pair.get_by_label("Recorded").locator(".differs")).to_contain_text("find_order")
    expect(pair.get_by_label("Replayed").locator("pre")).to_contain_text(
        re.compile(r"the arguments are not those on the tape[\s\S]*at desk\.py:\d+ in seller")
    )
    example = report["groups"][0]["example"]["trace_id"]
    expect(page).to_have_url(re.compile(f"run={example}$"))

    pair.get_by_role("link", name="Open the run").click()
    expect(page.locator(".replays pre").first).to_contain_text(
        "the arguments are not those on the tape"
    )
    page.locator(".replays").get_by_role("link", name="Fleet replay").first.click()
    expect(page.locator(".fleet-pair")).to_be_visible()


def test_a_run_without_a_stored_report_says_so(visit, collector):
    fleet_id = f"fleet_{uuid.uuid4().hex}"
    assert collector.post_events(fleet_events(fleet_id)).status == 200
    page = visit.open(f"#/fleet/{fleet_id}?run=two")

    pair = page.locator(".fleet-pair")
    expect(pair.get_by_label("Replayed")).to_contain_text("Its report is not stored")
    expect(pair.get_by_label("Recorded")).to_contain_text("two")
