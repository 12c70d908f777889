"""The form for scores keeps its text and its focus, whatever arrives while it is filled in."""

import re

import pytest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE_MS, ended, started, tool

expect.set_options(timeout=PATIENCE_MS)


class Gate:
    """Requests of a tab that are held back until it is opened."""

    def __init__(self, page, addresses):
        self._held = []
        self._is_open = False
        page.route(re.compile(addresses), self._take)

    def _take(self, route):
        if self._is_open:
            route.continue_()
        else:
            self._held.append(route)

    def open(self):
        self._is_open = True
        for route in self._held:
            route.continue_()


@pytest.fixture
def run(collector, trace_id):
    """Return a run that has ended."""
    events = [started(trace_id), tool(trace_id, "weather"), ended(trace_id)]
    assert collector.post_events(events).json()["accepted"] == 3
    return trace_id


def name_in(page):
    return page.locator(".panel").get_by_label("Name")


def save(page, name):
    """Save the score in the form and expect it among the scores."""
    page.locator(".panel").get_by_label("Value").fill("0.75")
    page.keyboard.press("Enter")
    expect(page.locator(".panel .scores li")).to_contain_text(f"{name} 0.75")


def test_a_form_is_kept_while_the_rest_of_the_run_arrives(visit, run):
    page = visit.page
    first = Gate(page, "/v1/traces/[^/]+/(completeness|replayable)")
    events = Gate(page, "/v1/replay/")
    visit.open(f"#/run/{run}")
    expect(page.locator(".scores")).to_contain_text("none yet")
    page.keyboard.press("s")
    expect(name_in(page)).to_be_focused()
    page.keyboard.type("he")

    first.open()
    expect(page.get_by_role("heading", name="Re-execute")).to_be_visible()
    expect(name_in(page)).to_be_focused()
    page.keyboard.type("lp")
    events.open()
    expect(page.get_by_role("tab", name=re.compile(r"^Events \d"))).to_be_visible()
    expect(name_in(page)).to_be_focused()
    page.keyboard.type("ful")

    expect(name_in(page)).to_have_value("helpful")
    save(page, "helpful")
    expect(page.locator(".scores summary")).to_be_focused()


@pytest.mark.parametrize("of_step", [False, True], ids=["run", "step"])
def test_a_form_is_kept_while_its_run_grows(visit, collector, trace_id, of_step):
    assert collector.post_events([started(trace_id), tool(trace_id, "a")]).status == 200
    page = visit.open(f"#/run/{trace_id}")
    rows = page.locator(".step-row")
    expect(rows).to_have_count(2)
    if of_step:
        rows.nth(0).click()
        expect(page.locator(".details h2")).to_have_text("hand_made")
    expect(page.locator(".panel .scores")).to_contain_text("none yet")
    page.keyboard.press("s")
    expect(name_in(page)).to_be_focused()

    for many, name in ((3, "b"), (4, "c")):
        page.keyboard.type(name)
        assert collector.post_events([tool(trace_id, name)]).status == 200
        expect(rows).to_have_count(many)
    assert collector.post_events([ended(trace_id)]).status == 200
    expect(page.locator(".run-title .badge")).to_contain_text("success")

    expect(name_in(page)).to_be_focused()
    expect(name_in(page)).to_have_value("bc")
    save(page, "bc")


def test_a_form_opens_when_the_scores_arrive_after_the_key(visit, run):
    page = visit.page
    scores = Gate(page, r"/v1/scores\?")
    visit.open(f"#/run/{run}")
    expect(page.locator(".step-row")).to_have_count(2)
    page.keyboard.press("s")
    expect(page.locator(".scores")).to_be_empty()

    scores.open()
    expect(name_in(page)).to_be_focused()
    page.keyboard.type("late")
    save(page, "late")


def test_a_late_form_does_not_take_the_focus_from_another_field(visit, run):
    page = visit.page
    scores = Gate(page, r"/v1/scores\?")
    visit.open(f"#/run/{run}")
    expect(page.locator(".step-row")).to_have_count(2)
    page.keyboard.press("s")
    page.keyboard.press("/")
    page.keyboard.type("wea")

    scores.open()
    expect(page.locator(".scores")).to_contain_text("none yet")
    page.keyboard.type("ther")
    expect(page.get_by_label("Find in the run")).to_have_value("weather")
    expect(name_in(page)).to_be_hidden()
