"""The page on a phone: nothing is too wide, too small to tap, or beside its scale."""

import pytest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE_MS

expect.set_options(timeout=PATIENCE_MS)
SCREEN = {"width": 390, "height": 844}
FINGER = 32
"""Pixels: well above the 24 that WCAG asks for."""


@pytest.fixture
def phone(visits, collector, seeded):
    """A tab on a phone, whose scrollbars take no room."""
    visit = visits(collector, is_mobile=True, has_touch=True)
    visit.page.set_viewport_size(SCREEN)
    return visit


VIEWS = {
    "runs": ("#/runs", ".runlist tbody tr .what"),
    "run": ("#/run/{0}", ".step-row"),
    "compare": ("#/compare/{0}/{1}", ".diff-row"),
    "choice": ("#/compare/{0}", ".choices tbody tr"),
    "agents": ("#/agents", "tbody tr"),
    "agent": ("#/agent/pricing_agent", ".plot"),
    "sessions": ("#/sessions", ".sessions tbody tr"),
    "session": ("#/session/session_0", ".turn"),
    "collector": ("#/collector", ".flow-box"),
    "nothing": ("#/run/nobody", ".state"),
}


@pytest.mark.parametrize("view", VIEWS)
def test_no_view_is_wider_than_the_screen(phone, seeded, view):
    fragment, wanted = VIEWS[view]
    page = phone.open(fragment.format(*(each["trace_id"] for each in seeded)))

    expect(page.locator(wanted).first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREEN["width"]


def test_bars_ticks_and_playhead_share_one_scale(phone, seeded):
    page = phone.open(f"#/run/{seeded[1]['trace_id']}")
    bar = page.locator(".step-bar").first.bounding_box()
    page.get_by_role("button", name="To the beginning").click()

    begin = page.locator(".playhead").bounding_box()
    tick = page.locator(".ticks span").first.bounding_box()
    assert bar["x"] == pytest.approx(tick["x"], abs=1)
    assert bar["x"] == pytest.approx(begin["x"], abs=1)
    page.get_by_role("button", name="To the end").click()
    end = page.locator(".playhead").bounding_box()
    assert bar["x"] + bar["width"] == pytest.approx(end["x"], abs=2)


def test_what_is_tapped_is_large_enough_for_a_finger(phone, seeded):
    page = phone.open(f"#/run/{seeded[1]['trace_id']}")
    expect(page.get_by_role("tab", name="Events 23")).to_be_visible()

    small = page.locator("main button:visible:not(.fold)").evaluate_all(
        "(all, least) => all.filter(each => each.getBoundingClientRect().height < least)"
        ".map(each => each.getAttribute('aria-label') ?? each.textContent)",
        FINGER,
    )
    assert small == []


def test_tries_are_told_apart_and_a_card_says_what_it_is(phone, seeded):
    page = phone.open(f"#/run/{seeded[1]['trace_id']}")
    tries = page.locator(".step-row").filter(has_text="pricing_agent").locator(".attempt")
    expect(tries).to_have_text(["#1", "#2"])
    for each in tries.all():
        expect(each).to_be_visible()
    assert tries.evaluate_all("all => all.every(each => each.scrollWidth <= each.clientWidth)")

    page = phone.open("#/sessions")
    card = page.locator(".sessions tr").filter(has_text="session_0")
    asked = card.get_by_text("A flight to Bogotá next week, please")
    expect(asked).to_be_visible()
    assert asked.evaluate("each => each.scrollWidth <= each.clientWidth"), "the question is cut"
    asked.click()
    expect(page.locator(".turn")).to_have_count(3)


def test_who_is_logged_in_still_reaches_every_view(phone):
    page = phone.page
    page.add_init_script("localStorage.setItem('logged-in', 'yes')")
    phone.open("#/runs")
    expect(page.get_by_role("button", name="Log out")).to_be_visible()

    health = page.locator("#health").bounding_box()
    last = page.get_by_role("link", name="Collector", exact=True).bounding_box()
    assert last["x"] + last["width"] <= health["x"]
