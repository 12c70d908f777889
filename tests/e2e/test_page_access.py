"""The page for everyone: axe finds nothing wrong in any view, light and dark, wide and narrow."""

import json
import uuid

import pytest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE_MS
from tests.support.collector import http
from tests.support.stored_fleets import fleet_events
from tests.support.vendored import AXE

expect.set_options(timeout=PATIENCE_MS)
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


def violations(page):
    """Return what axe finds wrong: rule, and the elements that break it."""
    if not page.evaluate("typeof globalThis.axe === 'object'"):
        page.evaluate(AXE.read_text())
    found = page.evaluate("rules => axe.run(document, rules)", RULES)["violations"]
    return [(each["id"], [node["html"][:200] for node in each["nodes"]][:3]) for each in found]


@pytest.fixture(scope="module")
def views(collector, seeded):
    """Return the addresses of the views, with a part that each has when it is there."""
    run, other = seeded[1]["trace_id"], seeded[0]["trace_id"]
    score = {"trace_id": run, "name": "correct", "value": True}
    http("POST", f"{collector.url}/v1/scores?wait=stored&timeout=60", json.dumps(score).encode())
    fleet = f"fleet_{uuid.uuid4().hex}"
    assert collector.post_events(fleet_events(fleet)).status == 200
    return {
        "#/runs?pipeline=travel_desk&live=off": ".runlist tbody a.what",
        "#/runs?pipeline=travel_desk&live=off&q=lima": ".passage mark",
        f"#/run/{run}": ".score",
        f"#/run/{run}?q=lima": ".step-row.hit",
        f"#/compare/{other}/{run}": ".diff-row",
        "#/agents": ".grid tbody tr",
        "#/agent/planner": ".plot",
        "#/sessions": ".grid tbody tr",
        "#/session/session_0": ".turn",
        "#/fleets": ".fleets tbody tr",
        f"#/fleet/{fleet}": ".cause",
        f"#/fleet/{fleet}?run=one": ".fleet-pair",
        "#/collector": ".flow-box",
    }


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1440), ("dark", 1440), ("light", 390)], ids=str
)
def test_axe_finds_nothing_wrong_in_any_view(visits, collector, views, scheme, width):
    visit = visits(collector, color_scheme=scheme, reduced_motion="reduce")
    visit.page.set_viewport_size({"width": width, "height": 844})
    for fragment, part in views.items():
        page = visit.open(fragment)
        expect(page.locator(part).first).to_be_visible()

        assert violations(page) == [], fragment


def test_axe_finds_nothing_wrong_in_completions_and_forms(visit, views):
    page = visit.open(next(iter(views)))
    expect(page.locator(".runlist tbody a.what").first).to_be_visible()
    page.get_by_role("combobox", name="Search runs").press_sequentially("a")
    expect(page.get_by_role("option").first).to_be_visible()
    assert violations(page) == []

    page = visit.open("#/session/session_0")
    page.get_by_role("button", name="Score").last.click()
    expect(page.get_by_role("button", name="Save score")).to_be_visible()
    assert violations(page) == []


def test_a_session_shows_the_scores_of_its_turns_and_takes_one_by_key(visit, views):
    page = visit.open("#/session/session_0")
    scored = page.locator(".turn").filter(has_text="Lima")
    expect(scored.locator("header .score")).to_have_text("correct ✓")
    expect(page.locator(".facts").get_by_text("100 %")).to_be_visible()

    page.keyboard.press("t")
    last = page.locator(".turn").last
    expect(last.get_by_label("Name")).to_be_focused()
    page.keyboard.type("tone")
    last.get_by_label("Value").fill("friendly")
    page.keyboard.press("Enter")
    expect(last.locator(".scores li")).to_contain_text("tone friendly")


def test_a_run_takes_a_score_by_key(visit, views, seeded):
    page = visit.open(f"#/run/{seeded[4]['trace_id']}")
    expect(page.locator(".scores")).to_contain_text("none yet")

    page.keyboard.press("s")
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.type("helpful")
    page.get_by_label("Value").fill("0.75")
    page.keyboard.press("Enter")

    expect(page.locator(".scores li")).to_contain_text("helpful 0.75")
    page.reload()
    expect(page.locator(".run-head .score")).to_have_text("helpful 0.75")
