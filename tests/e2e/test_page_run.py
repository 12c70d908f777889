"""One run in a real browser: the waterfall, the player, details, live growth, gaps, long runs."""

import json
import re

from playwright.sync_api import expect

from tests.support.browser import PATIENCE_MS, ended, event, started, tool

expect.set_options(timeout=PATIENCE_MS)


def steps(page):
    return page.locator(".step-row")


def open_lima(visit, seeded):
    """The run with two tries and a takeover."""
    page = visit.open(f"#/run/{seeded[1]['trace_id']}")
    expect(page.get_by_role("tab", name="Events 23")).to_be_visible()
    return page


def test_agents_models_tools_tries_and_takeovers_are_one_picture(visit, seeded):
    page = visit.open(f"#/run/{seeded[1]['trace_id']}")

    expect(steps(page)).to_have_count(13)
    labels = steps(page).evaluate_all("rows => rows.map(row => row.getAttribute('aria-label'))")
    kinds = {label.split()[0] for label in labels}
    assert kinds == {"pipeline", "agent", "llm", "tool", "retrieval", "retry", "fallback"}
    assert any("on the critical path" in label for label in labels)
    expect(page.locator(".critical").first).to_be_attached()
    expect(page.locator(".chain")).to_contain_text("try 2")
    links = page.locator(".run-title .end a").evaluate_all("all => all.map(each => each.href)")
    assert any("/api/traces/" in each for each in links)
    for address in links[1:]:
        assert page.request.get(address).ok, address


def test_the_old_address_of_a_run_still_leads_to_it(visit, seeded):
    page = visit.open(f"#{seeded[0]['trace_id']}")

    expect(page.locator("h1")).to_have_text("travel_desk")


def test_a_step_shows_what_went_in_what_came_out_and_why(visit, seeded):
    page = visit.open(f"#/run/{seeded[1]['trace_id']}")
    planner = steps(page).filter(has_text="planner").first
    planner.click()

    panel = page.locator(".panel-body")
    expect(panel).to_contain_text("The request names Lima")
    expect(panel.locator(".candidates .won")).to_contain_text("Lima")
    expect(panel.locator(".candidates li")).to_have_count(3)
    assert "step=" in page.url
    panel.get_by_text("Raw JSON").click()
    expect(panel.locator("pre").last).to_contain_text('"decision_id"')
    steps(page).filter(has_text="pricing_agent #1").click()
    expect(panel.locator(".notice")).to_contain_text("RateLimitError")
    panel.get_by_text("Stack trace").click()
    expect(panel).to_contain_text("Traceback")


def test_the_player_moves_a_playhead_and_sums_follow(visit, seeded):
    page = open_lima(visit, seeded)
    figure = page.locator(".figure")
    page.keyboard.press("Home")
    expect(figure.nth(2)).to_have_text("0 tokens")
    expect(page.locator(".step-row.future").first).to_be_attached()

    page.get_by_role("button", name="Play", exact=True).click()
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    expect(figure.nth(2)).to_have_text("275 tokens")
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    page.keyboard.press("End")
    expect(figure.nth(2)).to_have_text("700 tokens")
    expect(page.locator(".step-row.future")).to_have_count(0)


def test_the_player_steps_from_event_to_event_and_can_be_scrubbed(visit, seeded):
    page = open_lima(visit, seeded)
    clock = page.locator(".player-clock")
    page.keyboard.press("Home")
    at_start = clock.text_content()
    page.keyboard.press(".")
    page.keyboard.press(".")
    expect(clock).not_to_have_text(at_start)
    page.keyboard.press(",")
    page.keyboard.press(",")
    expect(clock).to_have_text(at_start)

    page.get_by_role("slider", name="Moment of the run").fill("500")
    expect(page.locator(".step-row.now").first).to_be_attached()
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Events").click()
    expect(page.locator(".event-row:not(.future)").first).to_be_attached()
    expect(page.locator(".event-row.future").first).to_be_attached()
    page.get_by_role("button", name="Decisions").click()
    expect(page.locator(".event-row")).to_have_count(2)


def test_steps_are_walked_folded_and_zoomed_by_keyboard(visit, seeded):
    page = open_lima(visit, seeded)
    page.keyboard.press("j")
    page.keyboard.press("ArrowLeft")
    expect(steps(page)).to_have_count(1)
    page.keyboard.press("ArrowRight")
    expect(steps(page)).to_have_count(13)
    page.keyboard.press("j")
    expect(steps(page).nth(1)).to_have_attribute("aria-selected", "true")
    tick = page.locator(".ticks span").last
    whole = tick.text_content()
    page.keyboard.press("z")
    expect(tick).not_to_have_text(whole)
    page.keyboard.press("0")
    expect(tick).to_have_text(whole)


def test_a_run_that_goes_on_grows(visit, seeded, collector, trace_id):
    collector.post_events([started(trace_id), tool(trace_id, "first")])
    page = visit.open(f"#/run/{trace_id}")
    expect(steps(page)).to_have_count(2)
    expect(page.locator(".run-title .badge")).to_contain_text("running")

    collector.post_events([tool(trace_id, "second", 0)])
    expect(steps(page)).to_have_count(3)
    collector.post_events([ended(trace_id)])
    expect(page.locator(".run-title .badge")).to_contain_text("success")


def test_missing_events_are_shown_where_they_are_missing(visit, collector, trace_id):
    numbered = {"emitter_id": f"emt_{trace_id[4:]}", "service": "gappy"}
    events = [
        started(trace_id, emitter_seq=1, trace_seq=1, **numbered),
        tool(trace_id, "only", emitter_seq=2, trace_seq=2, **numbered),
        ended(trace_id, emitter_seq=6, trace_seq=6, trace_event_count=6, **numbered),
    ]
    assert collector.post_events(events).json()["accepted"] == 3
    page = visit.open(f"#/run/{trace_id}")

    expect(page.locator(".run-head")).to_contain_text("3 events are missing.")
    page.keyboard.press("e")
    expect(page.locator(".event-row.gap")).to_contain_text("3 to 5")


def test_of_a_long_run_only_what_can_be_seen_is_in_the_document(visit, collector, trace_id):
    many = 3000
    calls = [
        tool(trace_id, f"tool_{n}", 2 - n / many, span_id=f"{n + 1:016x}", arguments={"nth": n})
        for n in range(many)
    ]
    assert collector.post_events([started(trace_id, 3), *calls, ended(trace_id)]).status == 200
    page = visit.open(f"#/run/{trace_id}")

    expect(steps(page).first).to_be_visible()
    assert 10 < steps(page).count() < 120
    page.locator(".waterfall-rows").evaluate("rows => rows.scrollTo(0, 1e9)")
    last = steps(page).filter(has_text=f"tool_{many - 1}")
    expect(last).to_be_visible()
    assert steps(page).count() < 120

    # A step of it is read when somebody looks at it, and so are the events.
    last.click()
    expect(page.locator(".panel-body")).to_contain_text(f'"nth": {many - 1}')
    page.keyboard.press("e")
    expect(page.locator(".event-kinds")).to_contain_text(f"{many + 2:,} events")
    page.locator(".event-rows").evaluate("rows => rows.scrollTo(0, 0)")
    expect(page.locator(".event-row").filter(has_text="run started")).to_be_visible()
    assert page.locator(".event-row").count() < 120
    assert page.evaluate("document.querySelectorAll('*').length") < 1500


def test_two_runs_are_aligned_and_the_first_difference_is_open(visit, seeded):
    page = visit.open(f"#/compare/{seeded[0]['trace_id']}/{seeded[1]['trace_id']}")

    first = page.locator(".diff-row.first")
    expect(first).to_be_in_viewport()
    expect(first.locator(".before").first).to_contain_text("Bogotá")
    expect(first.locator(".after").first).to_contain_text("Lima")
    expect(page.locator(".diff-row.d-added").first).to_contain_text("pricing_agent")
    page.get_by_role("button", name="Differences").click()
    expect(page.locator(".d-same")).to_have_count(0)
    page.keyboard.press("x")
    expect(first.locator(".before").first).to_contain_text("Lima")


def test_an_agent_is_plotted(visit, seeded):
    page = visit.open("#/agents")
    row = page.locator("tr").filter(has_text=re.compile("^pricing_agent"))
    expect(row.locator(".spark rect").first).to_be_attached()
    row.get_by_role("link").click()

    expect(page.locator("h1")).to_contain_text("pricing_agent")
    expect(page.locator(".plot").first).to_be_visible()
    expect(page.locator(".plot .failed").first).to_be_attached()
    expect(page.get_by_role("link", name="RateLimitError")).to_be_visible()


def test_a_conversation_has_its_turns_and_tools(visit, seeded):
    page = visit.open("#/sessions")
    page.get_by_role("link", name="session_0").click()

    expect(page.locator(".turn")).to_have_count(3)
    expect(page.locator(".said.user").first).to_have_text("A flight to Bogotá next week, please")
    expect(page.locator(".said.answer").first).to_contain_text("booked")
    page.locator(".rounds summary").first.click()
    expect(page.locator(".round").first).to_contain_text("flights")


def test_the_collector_tells_what_came_in_and_what_to_do(visit, seeded, collector):
    bad = json.dumps(event("agent.tool.called", 0, trace_id="t")).encode()
    assert collector.post_events([], raw=bad).status == 400
    page = visit.open("#/collector")

    expect(page.locator(".flow-box").first).to_contain_text("Received")
    expect(page.locator(".notice").filter(has_text="refused at the door")).to_be_visible()
    expect(page.locator("tr").filter(has_text="travel-desk").first).to_be_visible()
