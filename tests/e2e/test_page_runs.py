"""The run list in a real browser: live, filtered by URL and by hand, mouse and keyboard."""

import json
import re
import uuid
from itertools import pairwise
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE_MS, ended, started
from tests.support.collector import http
from tests.support.waiting import wait_until

expect.set_options(timeout=PATIENCE_MS)
DESK = "#/runs?pipeline=travel_desk"


def rows(page):
    return page.locator(".runlist tbody tr")


def test_a_run_shows_its_status_agents_and_figures(visit, seeded):
    page = visit.open(DESK)

    expect(rows(page)).to_have_count(len(seeded))
    lima = rows(page).filter(has_text="Lima")
    expect(lima.locator(".c-status")).to_have_text(re.compile("partial success"))
    tries = "pricing_agent (failed), pricing_agent (failed)"
    expect(lima.locator(".strip")).to_have_attribute(
        "aria-label", f"Agents: planner, {tries}, regex_pricing_agent, review_agent"
    )
    assert lima.locator(".strip span").count() == 5
    assert lima.locator(".strip .x-failed").count() == 2
    widths = lima.locator(".strip span").evaluate_all("all => all.map(each => each.clientWidth)")
    assert min(widths) >= 10, "blocks are too narrow to be seen"
    assert lima.locator(".c-small").all_inner_texts() == ["2", "1", "1"]
    failed = rows(page).filter(has_text="Atlantis").locator(".c-status")
    expect(failed).to_contain_text("failed")
    expect(failed.locator(".why")).to_have_text("LookupError")


def test_agents_of_one_run_have_colours_that_differ(visit, seeded):
    page = visit.open(DESK)
    blocks = rows(page).filter(has_text="Lima").locator(".strip span")
    expect(blocks).to_have_count(5)

    colour = "each => getComputedStyle(each).getPropertyValue('--agent')"
    hues = {
        float(text.rstrip(")").split()[-1])
        for text in blocks.evaluate_all(f"all => all.map({colour})")
    }
    own = sorted(hues)
    assert len(own) == 4
    apart = [after - before for before, after in pairwise(own)]
    assert min([*apart, own[0] + 360 - own[-1]]) >= 40


@pytest.mark.parametrize(
    ("fragment", "dots"),
    [
        ("#/agents", "tbody tr .dot"),
        ("#/compare/{0}/{1}?all=yes", ".diff-name:has(small:text-is('agent')) .dot"),
    ],
)
def test_agents_of_a_view_have_colours_that_differ(visit, seeded, fragment, dots):
    page = visit.open(fragment.format(*(each["trace_id"] for each in seeded)))
    expect(page.locator(dots).first).to_be_visible()

    shown = page.locator(dots).evaluate_all(
        "all => all.map(each => [each.nextSibling.textContent,"
        " each.style.getPropertyValue('--agent')])"
    )
    names = {name for name, _ in shown}
    assert len(names) >= 4
    assert len({colour for _, colour in shown}) == min(len(names), 12)


def test_filters_are_in_the_address(visit, seeded):
    page = visit.open(f"{DESK}&status=failed")
    expect(rows(page)).to_have_count(1)

    page.get_by_role("button", name="Remove status: failed").click()
    expect(rows(page)).to_have_count(len(seeded))
    page.locator(".facets").get_by_role("button", name=re.compile("regex_pricing_agent")).click()
    expect(rows(page)).to_have_count(1)
    assert "agent=regex_pricing_agent" in page.url
    page.go_back()
    expect(rows(page)).to_have_count(len(seeded))
    page.go_forward()
    expect(rows(page)).to_have_count(1)
    page.reload()
    expect(rows(page)).to_have_count(1)
    expect(page.locator(".chip").filter(has_text="regex_pricing_agent")).to_be_visible()


def test_a_list_that_stands_still_is_read_all_the_same(visit, seeded):
    """`live` belongs to the page's address; the collector would refuse it."""
    page = visit.open(f"{DESK}&live=off")

    expect(rows(page)).to_have_count(len(seeded))
    expect(page.locator(".histogram rect.ok").first).to_be_attached()


def test_words_are_searched_for_with_the_keyboard_alone(visit, seeded):
    page = visit.open(DESK)
    expect(rows(page)).to_have_count(len(seeded))

    page.keyboard.press("/")
    page.keyboard.type("Bogotá")
    page.keyboard.press("Enter")
    expect(rows(page)).to_have_count(1)
    page.keyboard.press("Escape")
    assert "q=Bogot" in page.url, "the words stay"
    page.keyboard.press("j")
    expect(rows(page).first).to_have_class(re.compile("chosen"))
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("travel_desk")


def test_dragging_over_the_histogram_chooses_a_window(visit, seeded):
    page = visit.open(f"{DESK}&from=15m")
    expect(page.locator(".histogram rect.ok").first).to_be_attached()
    box = page.locator(".histogram svg").bounding_box()

    page.mouse.move(box["x"] + 5, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + 20, steps=4)
    page.mouse.up()
    page.wait_for_url(re.compile("from=2.*&to=2|to=2.*&from=2"))
    expect(page.get_by_text("No run matches.")).to_be_visible()


def test_a_window_is_chosen_on_the_histogram_with_the_keyboard(visit, seeded):
    page = visit.open(f"{DESK}&from=15m")
    expect(page.locator(".histogram rect.ok").first).to_be_attached()
    histogram = page.get_by_role("slider", name="When runs began")
    histogram.focus()
    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowRight")
    expect(histogram).to_have_attribute("aria-valuetext", re.compile(": 0 runs$"))
    page.keyboard.press("Escape")
    expect(histogram).to_have_attribute("aria-valuetext", re.compile("runs, .* in this window$"))

    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+End")
    expect(histogram).to_have_attribute("aria-valuetext", re.compile(f": {len(seeded)} runs"))
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("from=2.*&to=2|to=2.*&from=2"))
    expect(rows(page)).to_have_count(len(seeded))


def test_runs_are_narrowed_by_their_scores_in_the_address(visit, collector, trace_id):
    for name, value in (("good", 1), ("bad", 0)):
        run = f"{trace_id}-{name}"
        collector.post_events([ended(run, event_id=run, user_id=trace_id)])
        score = {"trace_id": run, "name": trace_id, "value": value}
        http(
            "POST", f"{collector.url}/v1/scores?wait=stored&timeout=60", json.dumps(score).encode()
        )

    page = visit.open(f"#/runs?user={trace_id}&score={trace_id}&max_score=0.5")

    expect(rows(page)).to_have_count(1)
    page.get_by_role("button", name="Remove max score: 0.5").click()
    expect(rows(page)).to_have_count(2)


def test_words_may_hold_any_character(visit, collector, trace_id):
    odd = '100% of \\ it\'s "quoted" <b>&amp;_* 🙂 ñandú שלום'
    collector.post_events([ended(trace_id, user_id=trace_id, output_summary=odd)])
    page = visit.open(f"#/runs?user={trace_id}")
    expect(rows(page)).to_have_count(1)

    for words in ("ñandú", '"quoted"', "שלום", "%", "\\ _ *", "'); --", "#/runs?q=&a=b+c"):
        page.keyboard.press("/")
        page.keyboard.type(words)
        page.keyboard.press("Enter")
        expect(page.locator(".chip").filter(has_text=f"text: {words}")).to_be_visible()
        expect(page.get_by_role("combobox", name="Search runs")).to_have_value(words)
        page.keyboard.press("Escape")
        page.reload()
        expect(page.locator(".chip").filter(has_text=f"text: {words}")).to_be_visible()
        said = page.get_by_text(re.compile("No run matches|has no word to search for|the only one"))
        expect(said).to_be_visible()
    for words in ("ñandú", '"quoted"', "שלום"):
        visit.open(f"#/runs?user={trace_id}&q={quote(words)}")
        expect(rows(page)).to_have_count(1)


def stored(collector, user):
    return len(http("GET", f"{collector.url}/v1/traces?user={user}").json()["traces"])


def test_a_first_run_appears_by_itself_and_changes_in_place(visit, seeded, collector, trace_id):
    page = visit.open(f"#/runs?user={trace_id}")
    expect(page.get_by_text("No run matches.")).to_be_visible()

    collector.post_events([started(trace_id, user_id=trace_id)])
    expect(rows(page)).to_have_count(1)
    expect(rows(page).locator(".c-status")).to_contain_text("running")
    collector.post_events([ended(trace_id, user_id=trace_id)])
    expect(rows(page).locator(".c-status")).to_contain_text("success")


def test_new_runs_wait_behind_a_button_and_move_no_row(visit, collector, trace_id):
    user, old = trace_id, f"{trace_id}_old"
    collector.post_events([started(old, 20, user_id=user)])
    page = visit.open(f"#/runs?user={user}")
    expect(rows(page)).to_have_count(1)
    top = rows(page).first.bounding_box()["y"]

    collector.post_events([started(f"{user}_{n}", 5 - n, user_id=user) for n in range(3)])
    new = page.get_by_role("button", name="3 new runs")
    expect(new).to_be_visible()
    collector.post_events([ended(old, 0, user_id=user)])
    expect(rows(page).locator(".c-status")).to_contain_text("success")
    assert rows(page).count() == 1
    assert rows(page).first.bounding_box()["y"] == top

    new.click()
    expect(rows(page)).to_have_count(4)
    expect(rows(page).last).to_have_attribute("data-run", old)
    expect(new).to_have_count(0)


def test_a_late_answer_to_an_earlier_question_changes_nothing(visit, seeded, collector, trace_id):
    page = visit.open(f"{DESK}&status=failed")
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_role("button", name="Live")).to_have_attribute("aria-pressed", "true")
    held = []
    page.route(
        re.compile("/v1/traces\\?.*status=failed.*limit=50"), lambda route: held.append(route)
    )
    with page.expect_request(lambda request: "status=failed" in request.url):
        collector.post_events([started(trace_id)])

    page.get_by_role("button", name="Remove status: failed").click()
    expect(rows(page)).to_have_count(len(seeded))
    assert held
    with page.expect_request_finished(lambda request: "status=failed" in request.url):
        for route in held:
            route.continue_()
    page.evaluate("new Promise(requestAnimationFrame)")
    assert rows(page).count() == len(seeded)


def test_two_runs_ticked_with_the_mouse_are_compared(visit, seeded):
    page = visit.open(f"{DESK}&live=off")
    expect(rows(page)).to_have_count(len(seeded))
    ticks = page.get_by_role("checkbox", name=re.compile("Select to compare: travel_desk"))
    ticks.nth(0).check()
    expect(page.get_by_text("1 run is selected")).to_be_visible()
    ticks.nth(2).check()
    page.get_by_role("button", name="Clear the selection").click()
    expect(ticks.nth(0)).not_to_be_checked()
    ids = [rows(page).nth(at).get_attribute("data-run") for at in (1, 3)]
    ticks.nth(1).check()
    ticks.nth(3).check()

    page.get_by_role("button", name="Compare the two selected runs").click()

    expect(page.locator("h1")).to_have_text("Compare")
    assert page.url.endswith(f"#/compare/{ids[0]}/{ids[1]}")


def test_question_and_answer_are_in_the_list(visit, seeded):
    page = visit.open(f"{DESK}&live=off")

    quito = rows(page).filter(has_text="Quito").locator(".prompt")
    expect(quito).to_have_text(
        "A flight to Quito next week, please → booked: fly to Quito at 08:10"
    )


def test_a_list_of_many_runs_is_drawn_in_the_end(visit, collector, trace_id):
    ids = [f"{trace_id}_{number}" for number in range(40)]
    collector.post_events([ended(each, user_id=trace_id) for each in ids])
    wait_until(lambda: stored(collector, trace_id) == len(ids), timeout=60)
    page = visit.open(f"#/runs?user={trace_id}")

    expect(rows(page)).to_have_count(len(ids))
    expect(page.locator(".runlist tbody a.what")).to_have_count(len(ids))
    assert page.locator(".runlist tr.new").count() == 0, "when all is new, nothing stands out"


def test_a_chosen_run_that_changes_keeps_the_focus(visit, collector, trace_id):
    page = visit.open(f"#/runs?user={trace_id}")
    collector.post_events([started(trace_id, user_id=trace_id)])
    expect(rows(page).locator(".c-status")).to_contain_text("running")
    page.keyboard.press("j")
    expect(page.locator(".runlist a.what")).to_be_focused()

    collector.post_events([ended(trace_id, user_id=trace_id)])
    expect(rows(page).locator(".c-status")).to_contain_text("success")
    expect(page.locator(".runlist a.what")).to_be_focused()


def test_two_runs_picked_by_keyboard_are_compared(visit, seeded):
    page = visit.open(DESK)
    expect(rows(page)).to_have_count(len(seeded))
    for key in ("j", "c", "j", "c"):
        page.keyboard.press(key)

    expect(page.locator("h1")).to_have_text("Compare")
    expect(page.locator(".side")).to_have_count(2)


def test_on_a_narrow_screen_nothing_is_wider_than_the_screen(visits, collector, seeded):
    visit = visits(collector, color_scheme="dark")
    visit.page.set_viewport_size({"width": 420, "height": 800})
    run = seeded[1]["trace_id"]
    views = {
        DESK: ".runlist tbody tr",
        f"#/run/{run}": ".step-row",
        f"#/compare/{seeded[0]['trace_id']}/{run}": ".diff-row",
        "#/agents": ".grid tr",
        "#/agent/planner": ".plot",
        "#/sessions": ".grid tr",
        "#/session/session_0": ".turn",
        "#/collector": ".flow-box",
    }
    for fragment, part in views.items():
        page = visit.open(fragment)
        expect(page.locator(part).first).to_be_visible()
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) <= 0, fragment


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "phone"])
def test_back_navigation_restores_the_list_position(visits, collector, narrow):
    pipeline = f"many_{uuid.uuid4().hex}"
    runs = [f"trc_{uuid.uuid4().hex}" for _ in range(90)]
    events = [started(each, 90 - n, pipeline_type=pipeline) for n, each in enumerate(runs)]
    assert collector.post_events(events).status == 200
    visit = visits(collector, is_mobile=narrow, has_touch=narrow)
    if narrow:
        visit.page.set_viewport_size({"width": 390, "height": 844})
    page = visit.open(f"#/runs?live=off&pipeline={pipeline}")
    found = rows(page)
    expect(found).to_have_count(50)
    page.get_by_role("button", name="Show more").click()
    expect(found).to_have_count(90)
    opened = found.nth(70)
    opened.scroll_into_view_if_needed()
    before = opened.bounding_box()["y"]
    opened.locator(".what").click()
    expect(page.locator(".step-row").first).to_be_visible()
    page.go_back()

    expect(found).to_have_count(90)
    expect(opened).to_be_in_viewport()
    expect(opened).to_contain_class("chosen")
    assert opened.bounding_box()["y"] == pytest.approx(before, abs=2)

    # A link to the list resets the position.
    opened.locator(".what").click()
    expect(page.locator(".step-row").first).to_be_visible()
    page.locator("#views").get_by_role("link", name="Runs").click()
    expect(found.first).to_be_in_viewport()
