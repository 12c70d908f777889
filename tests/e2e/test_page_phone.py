"""The page on a phone: nothing overflows, is too small to tap, or is off its scale."""

import itertools
import re
import uuid

import pytest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE_MS, ended, started, tool
from tests.support.stored_fleets import fleet_events

expect.set_options(timeout=PATIENCE_MS)
SCREEN = {"width": 390, "height": 844}
FINGER = 40
"""Minimum tap size in pixels, well above the 24 that WCAG requires."""
ROW, DENSE_ROW = 44, 25
"""Row heights for touch and for a mouse."""
MANY = 3000


@pytest.fixture
def phone(visits, collector, seeded):
    """Return a tab on a phone, whose scrollbars take no space."""
    assert collector.post_events(fleet_events("fleet_of_phones")).status == 200
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
    "fleets": ("#/fleets", ".fleets tbody tr"),
    "fleet": ("#/fleet/fleet_of_phones?run=one", ".fleet-pair"),
    "collector": ("#/collector", ".flow-box"),
    "nothing": ("#/run/nobody", ".state"),
}


@pytest.mark.parametrize("view", VIEWS)
def test_no_view_is_wider_than_the_screen(phone, seeded, view):
    fragment, wanted = VIEWS[view]
    page = phone.open(fragment.format(*(each["trace_id"] for each in seeded)))

    expect(page.locator(wanted).first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREEN["width"]


def test_figures_of_a_run_stand_beside_each_other(phone, seeded):
    page = phone.open(f"#/run/{seeded[1]['trace_id']}")
    figures = page.locator(".run-facts .facts > div")
    expect(figures.first).to_be_visible()

    # In one step, because figures are drawn again while the run is read.
    tops = figures.evaluate_all(
        "all => all.filter(one => one.checkVisibility()).map(one => one.getBoundingClientRect().y)"
    )
    assert 1 <= len(set(tops)) <= 3


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


@pytest.mark.parametrize("view", VIEWS)
def test_tap_targets_are_large_enough(phone, seeded, view):
    fragment, wanted = VIEWS[view]
    page = phone.open(fragment.format(*(each["trace_id"] for each in seeded)))
    expect(page.locator(wanted).first).to_be_visible()
    if view == "run":
        expect(page.get_by_role("tab", name="Events 18")).to_be_visible()
    if view == "runs":
        page.get_by_role("button", name="Filters").click()
        expect(page.locator(".facet").first).to_be_visible()

    # Run and session cards can be tapped anywhere, a mark together with its row.
    tapped = "button:not(.fold), select, input, summary, .step-row, .event-row"
    alone = ".run-title a, .heading a, .turn header a, .grid:not(.runlist, .sessions) a, nav a"
    small = page.locator(f":is({tapped}, {alone}):visible").evaluate_all(
        # Rows may have been replaced since they were found.
        "(all, least) => all.filter(each => each.isConnected)"
        ".filter(each => each.getBoundingClientRect().height < least)"
        ".map(each => each.getAttribute('aria-label') ?? each.textContent)",
        FINGER,
    )
    assert small == []


@pytest.fixture(scope="module")
def long_run(collector):
    """Send a run of many steps, each named by its number."""
    trace_id = f"trc_{uuid.uuid4().hex}"
    calls = [
        tool(trace_id, f"tool_{n}", 2 - n / MANY, span_id=f"{n + 1:016x}", arguments={"nth": n})
        for n in range(MANY)
    ]
    assert collector.post_events([started(trace_id, 3), *calls, ended(trace_id)]).status == 200
    return trace_id


def middle(locator):
    """Return the centre of an element on the screen."""
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def heights(page):
    """Return the distinct row heights and distances between rows."""
    rows = page.locator(".step-row").evaluate_all(
        "rows => rows.map(row => row.getBoundingClientRect()).map(box => [box.top, box.height])"
    )
    tops = sorted(top for top, _ in rows)
    between = (round(below - above) for above, below in itertools.pairwise(tops))
    return {round(height) for _, height in rows} | set(between)


@pytest.mark.parametrize("row_of", [1, MANY // 2, MANY - 40], ids="step {}".format)
def test_the_row_that_is_tapped_is_the_one_that_opens(phone, long_run, row_of):
    page = phone.open(f"#/run/{long_run}")
    expect(page.locator(".step-row").first).to_be_visible()
    page.locator(".waterfall-rows").evaluate("(rows, top) => rows.scrollTo(0, top)", row_of * ROW)
    wanted = page.locator(".step-row").filter(has_text=re.compile(rf"tool_{row_of + 1}(?!\d)"))
    expect(wanted).to_be_visible()

    assert heights(page) == {ROW}
    page.touchscreen.tap(*middle(wanted))
    expect(page.locator(".details h2")).to_have_text(f"tool_{row_of + 1}")
    expect(page.locator(".step-row.selected")).to_have_count(1)
    expect(page.locator(".panel-body")).to_contain_text(f"nth: {row_of + 1}")


def test_a_link_and_keys_lead_to_rows_far_down_for_fingers_too(phone, long_run):
    page = phone.open(f"#/run/{long_run}")
    rows = page.locator(".waterfall-rows")
    expect(page.locator(".step-row").first).to_be_visible()
    rows.evaluate("rows => rows.scrollTo(0, 1e9)")
    page.locator(".step-row").filter(has_text=f"tool_{MANY - 9}").tap()
    page.wait_for_url(re.compile("step="))
    linked = page.url
    page.goto("about:blank")
    page.goto(linked)

    chosen = page.locator(".step-row.selected")
    expect(chosen).to_contain_text(f"tool_{MANY - 9}")
    for _ in range(3):
        page.keyboard.press("j")
    expect(chosen).to_contain_text(f"tool_{MANY - 6}")
    seen, row = rows.bounding_box(), chosen.bounding_box()
    assert seen["y"] <= row["y"]
    assert row["y"] + row["height"] <= seen["y"] + seen["height"]


def test_a_run_that_grows_keeps_its_rows_under_the_finger(phone, collector, trace_id):
    calls = [tool(trace_id, f"early_{n}", 2 - n / 60, span_id=f"{n + 1:016x}") for n in range(60)]
    collector.post_events([started(trace_id, 3), *calls])
    page = phone.open(f"#/run/{trace_id}")
    rows = page.locator(".waterfall-rows")
    expect(page.locator(".step-row").first).to_be_visible()
    rows.evaluate("(rows, top) => rows.scrollTo(0, top)", 40 * ROW)
    read = page.locator(".step-row").filter(has_text="early_42")
    expect(read).to_be_visible()
    before = read.bounding_box()["y"]

    collector.post_events([tool(trace_id, "late", 0, span_id="f" * 16)])
    expect(page.locator(".filler").first).to_have_css("height", f"{62 * ROW}px")
    assert read.bounding_box()["y"] == before
    read.tap()
    expect(page.locator(".details h2")).to_have_text("early_42")


def test_a_mark_is_tapped_beside_it_too_and_the_name_opens_the_step(phone, seeded):
    page = phone.open(f"#/run/{seeded[1]['trace_id']}")
    planner = page.locator(".step-row").filter(has_text="planner").first
    expect(page.locator(".step-row")).to_have_count(13)

    x, y = middle(planner.locator(".kind"))
    page.touchscreen.tap(x, y - 15)
    expect(page.locator(".step-row")).to_have_count(8)
    page.touchscreen.tap(x, y + 15)
    expect(page.locator(".step-row")).to_have_count(13)
    planner.locator(".step-name").tap()
    expect(page.locator(".details h2")).to_have_text("planner")


def test_a_mouse_keeps_dense_rows_and_a_tablet_that_gets_one_has_them_too(phone, visit, long_run):
    page = visit.open(f"#/run/{long_run}")
    expect(page.locator(".step-row").first).to_be_visible()
    assert heights(page) == {DENSE_ROW}

    page = phone.open(f"#/run/{long_run}")
    expect(page.locator(".step-row").first).to_be_visible()
    rows = page.locator(".waterfall-rows")
    rows.evaluate("(rows, top) => rows.scrollTo(0, top)", 2000 * ROW)
    first = page.locator(".step-row").filter(has_text="tool_1999")  # the run itself is a row too
    expect(first).to_be_visible()
    tools = page.context.new_cdp_session(page)
    tools.send("Emulation.setTouchEmulationEnabled", {"enabled": False})
    expect(first).to_have_css("height", f"{DENSE_ROW}px")
    assert heights(page) == {DENSE_ROW}
    assert first.bounding_box()["y"] == pytest.approx(rows.bounding_box()["y"], abs=1)


def test_attempts_are_numbered_and_session_cards_show_the_prompt(phone, seeded):
    page = phone.open(f"#/run/{seeded[1]['trace_id']}")
    tries = page.locator(".step-row").filter(has_text="pricing_agent").locator(".attempt")
    expect(tries).to_have_text(["#1", "#2"])
    for each in tries.all():
        expect(each).to_be_visible()
    assert tries.evaluate_all("all => all.every(each => each.scrollWidth <= each.clientWidth)")

    page = phone.open("#/sessions")
    card = page.locator(".sessions tr").filter(
        has=page.get_by_role("link", name="session_0", exact=True)
    )
    asked = card.get_by_text("A flight to Madrid next week, please")
    expect(asked).to_be_visible()
    assert asked.evaluate("each => each.scrollWidth <= each.clientWidth"), "the question is cut"
    asked.click()
    expect(page.locator(".turn")).to_have_count(3)


def test_logged_in_user_reaches_every_view_on_a_phone(phone):
    page = phone.page
    page.add_init_script("localStorage.setItem('logged-in', 'yes')")
    phone.open("#/runs")
    expect(page.get_by_role("button", name="Log out")).to_be_visible()

    health = page.locator("#health").bounding_box()
    last = page.get_by_role("link", name="Collector", exact=True).bounding_box()
    assert last["x"] + last["width"] <= health["x"]


def test_unreachable_collector_is_shown_as_text(phone):
    page = phone.page
    phone.open("#/sessions")
    card = page.locator(".sessions tbody tr").first
    expect(card).to_be_visible()
    page.route("**/readyz", lambda route: route.abort())

    said = page.get_by_text("Collector unreachable")
    expect(said).to_be_visible()
    assert said.bounding_box()["height"] >= 20
    heading = page.get_by_role("heading", name="Sessions").bounding_box()
    assert said.bounding_box()["y"] + said.bounding_box()["height"] <= heading["y"]
    page.unroute("**/readyz")
    expect(page.locator("#health.good")).to_be_visible()


def test_a_day_of_another_year_has_its_year(phone):
    page = phone.page
    phone.open("#/runs?from=2019-03-01T00:00:00Z&to=2019-03-02T00:00:00Z")

    expect(page.locator(".histogram .ends")).to_contain_text(re.compile(r"0[12] Mar 2019 \d\d:00"))
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREEN["width"]
