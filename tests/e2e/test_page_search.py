"""Search that lands: one box for words, ids and filters; the hit is shown in the list and in the run."""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE_MS, ended, started, tool
from tests.support.collector import http
from tests.support.waiting import wait_until

expect.set_options(timeout=PATIENCE_MS)
MARKED = "[...(CSS.highlights.get('run-hit') ?? [])].map(String)"


def rows(page):
    return page.locator(".runlist tbody tr")


def box(page):
    return page.get_by_role("combobox", name="Search runs")


@pytest.fixture
def parcel(collector, trace_id):
    """Send a run of two tools, of which the second says where a parcel is."""
    events = [
        started(trace_id, 3, user_id=trace_id, user_prompt="where is my order?"),
        tool(trace_id, "look_up", 2.5, span_id="a" * 16, result="a climate report"),
        tool(
            *(trace_id, "track", 2),
            span_id="b" * 16,
            arguments={"number": 4711},
            result=f"{'on its way ' * 400}report: the PARCEL was left with DHL in Lima",
        ),
        tool(
            *(trace_id, "refund", 1.5),
            span_id="c" * 16,
            status="failed",
            error_type="Refused",
            error_message="no refund",
        ),
        ended(trace_id, 0, user_id=trace_id),
    ]
    assert collector.post_events(events).status == 200
    return trace_id


def test_one_box_takes_words_and_filters(visit, parcel):
    page = visit.open("#/runs")
    box(page).fill(f"parcel user:{parcel} duration:>1s status:success")
    box(page).press("Enter")

    expect(rows(page)).to_have_count(1)
    for chip in (f"user: {parcel}", "min duration ms: 1000", "status: success", "text: parcel"):
        expect(page.locator(".chip").get_by_text(chip, exact=True)).to_be_visible()
    expect(box(page)).to_have_value("parcel")
    assert f"user={parcel}" in page.url
    box(page).fill("cost:much")
    box(page).press("Enter")
    expect(page.locator("#toast")).to_contain_text("Invalid filter cost:much")


def test_the_id_of_a_run_opens_it(visit, parcel):
    page = visit.open("#/runs")
    box(page).fill(f"  {parcel} ")
    box(page).press("Enter")

    expect(page.locator("h1")).to_have_text("hand_made")
    assert f"#/run/{parcel}" in page.url


def test_an_id_that_no_run_has_is_searched_for_as_a_word(visit, parcel):
    page = visit.open(f"#/runs?user={parcel}")
    expect(rows(page)).to_have_count(1)
    box(page).fill("nothing4711")
    box(page).press("Enter")

    expect(page.get_by_text("No run matches.")).to_be_visible()


def test_names_and_values_of_filters_are_completed(visit, parcel):
    page = visit.open("#/runs")
    expect(rows(page).first).to_be_visible()
    box(page).press_sequentially("us")
    options = page.get_by_role("listbox", name="Completions").get_by_role("option")
    expect(options.first).to_contain_text("user:")
    box(page).press("Tab")
    expect(box(page)).to_have_value("user:")

    box(page).press_sequentially(parcel[4:20])
    expect(options).to_have_count(1)
    box(page).press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    box(page).press("Enter")
    expect(box(page)).to_have_value(f"user:{parcel} ")
    box(page).press("Enter")
    expect(rows(page)).to_have_count(1)


def test_a_row_shows_the_passage_with_the_hit_marked(visit, parcel):
    page = visit.open(f"#/runs?user={parcel}&q=parcel")

    said = rows(page).locator(".passage")
    expect(said).to_contain_text("the PARCEL was left with DHL")
    expect(said.locator("mark")).to_have_text("PARCEL")


def test_a_run_opened_from_a_search_shows_the_step_with_the_hit(visit, parcel):
    page = visit.open(f"#/runs?user={parcel}&q=lima")
    rows(page).locator("a.what").click()

    expect(page.locator(".step-row.selected")).to_contain_text("track")
    expect(page.locator(".step-row.hit")).to_have_count(1)
    expect(page.locator(".finder-said")).to_have_text("1 of 1 step")
    wait_until(lambda: "Lima" in page.evaluate(MARKED))
    seen = (
        "[...CSS.highlights.get('run-hit')].some(r => {const b = r.getBoundingClientRect();"
        " return b.height > 0 && b.top > 0 && b.bottom < innerHeight})"
    )
    wait_until(lambda: page.evaluate(seen))


def test_steps_are_searched_inside_a_run_with_the_keyboard(visit, parcel):
    page = visit.open(f"#/run/{parcel}")
    expect(page.locator(".step-row").first).to_be_visible()

    page.keyboard.press("/")
    page.keyboard.type("climate")
    expect(page.locator(".step-row.selected")).to_contain_text("look_up")
    page.get_by_role("textbox", name="Find in the run").fill("report")
    expect(page.locator(".finder-said")).to_have_text(re.compile(r"of \d steps"))
    page.keyboard.press("Escape")
    expect(page.locator(".step-row.selected")).to_contain_text("look_up")
    page.keyboard.press("n")
    expect(page.locator(".step-row.selected")).to_contain_text("track")
    page.keyboard.press("p")
    expect(page.locator(".step-row.selected")).to_contain_text("look_up")


def test_a_key_leads_to_the_next_error(visit, parcel):
    page = visit.open(f"#/run/{parcel}")
    expect(page.locator(".step-row").first).to_be_visible()

    page.keyboard.press("x")

    expect(page.locator(".step-row.selected")).to_contain_text("refund")


def test_a_link_has_tab_zoom_playhead_and_search(visit, parcel):
    page = visit.open(f"#/run/{parcel}")
    track = page.locator(".step-row").filter(has_text="track")
    track.click()
    page.keyboard.press("z")
    expect(page.get_by_role("button", name="Whole run")).to_be_visible()
    page.get_by_role("tab", name=re.compile("Events")).click()
    page.get_by_role("button", name="To the beginning").click()
    wait_until(lambda: "at=0" in page.evaluate("location.hash"))
    ticks = page.locator(".ticks").inner_text()
    url = page.url
    assert all(part in url for part in ("zoom=", "tab=events", f"step={'b' * 16}"))

    page.goto("about:blank")
    page.goto(url)

    expect(page.get_by_role("tab", name=re.compile("Events"))).to_have_attribute(
        "aria-selected", "true"
    )
    expect(page.locator(".step-row.selected")).to_contain_text("track")
    expect(page.locator(".player-clock")).to_have_text(re.compile("^0 ms /"))
    assert page.locator(".ticks").inner_text() == ticks
    page.get_by_role("button", name="Whole run").click()
    expect(page.get_by_role("button", name="Whole run")).to_be_hidden()
    assert "zoom=" not in page.url


def test_a_copied_link_has_the_window_as_it_was(visits, collector, parcel):
    visit = visits(collector, permissions=["clipboard-read", "clipboard-write"])
    page = visit.open(f"#/runs?user={parcel}&from=1h")
    expect(rows(page)).to_have_count(1)

    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#toast")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")

    assert re.search(r"from=20\d\d-.*to=20\d\d-", copied)
    page.goto(copied)
    expect(page.locator(".chip").filter(has_text="chosen window")).to_be_visible()
    expect(rows(page)).to_have_count(1)


def test_a_view_is_saved_under_a_name_and_forgotten(visit, parcel):
    page = visit.open(f"#/runs?user={parcel}&status=success")
    expect(rows(page)).to_have_count(1)
    page.get_by_role("textbox", name="Name of the view").fill("My <b>parcels</b>")
    page.get_by_role("button", name="Save", exact=True).click()

    page.goto(f"{visit.url}/#/runs?status=failed")
    page.get_by_role("link", name="My <b>parcels</b>").click()
    expect(page.locator(".chip").filter(has_text=f"user: {parcel}")).to_be_visible()
    page.reload()
    page.get_by_role("button", name="Forget the view My <b>parcels</b>").click()
    expect(page.get_by_role("link", name="My <b>parcels</b>")).to_have_count(0)


def test_the_crumb_of_a_run_leads_back_to_the_filters(visit, parcel):
    page = visit.open(f"#/runs?user={parcel}&status=success")
    rows(page).locator("a.what").click()
    expect(page.locator(".step-row").first).to_be_visible()

    page.locator(".run-title").get_by_role("link", name="Runs").click()

    expect(page.locator(".chip").filter(has_text=f"user: {parcel}")).to_be_visible()
    expect(rows(page)).to_have_count(1)


def test_scores_are_in_the_list_and_in_the_head_of_the_run(visit, collector, parcel):
    scores = [
        {"trace_id": parcel, "name": "correct", "value": True},
        {"trace_id": parcel, "name": "tone", "value": "<b>rude</b>", "span_id": "b" * 16},
    ]
    http("POST", f"{collector.url}/v1/scores?wait=stored&timeout=60", json.dumps(scores).encode())
    page = visit.open(f"#/runs?user={parcel}")

    expect(rows(page).locator(".c-scores")).to_contain_text("correct ✓")
    expect(rows(page).locator(".c-scores")).to_contain_text("tone: <b>rude</b>")
    rows(page).locator("a.what").click()
    expect(page.locator(".run-head .score").filter(has_text="correct ✓")).to_be_visible()
