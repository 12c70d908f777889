"""One run in a real browser: waterfall, player, details, live updates, gaps, long runs."""

import json
import re

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE_MS, ended, event, started, tool
from tests.support.collector import http
from tests.support.waiting import wait_until

expect.set_options(timeout=PATIENCE_MS)


def steps(page):
    return page.locator(".step-row")


def open_lima(visit, seeded):
    """Return the run with two attempts and a fallback."""
    page = visit.open(f"#/run/{seeded[1]['trace_id']}")
    expect(page.get_by_role("tab", name="Events 23")).to_be_visible()
    return page


def test_waterfall_shows_agents_models_tools_attempts_and_fallbacks(visit, seeded):
    page = visit.open(f"#/run/{seeded[1]['trace_id']}")

    expect(steps(page)).to_have_count(13)
    labels = steps(page).evaluate_all("rows => rows.map(row => row.getAttribute('aria-label'))")
    kinds = {label.split(", ")[1] for label in labels}
    calls = {"model call", "tool call", "search"}
    assert kinds == {"pipeline", "agent", "retry", "fallback"} | calls
    assert any("on the critical path" in label for label in labels)
    expect(page.locator(".critical").first).to_be_attached()
    expect(page.locator(".chain")).to_contain_text("attempt 2")
    expect(page.locator(".waterfall-head .legend")).to_have_text("critical path")
    links = page.locator(".run-title .end a").evaluate_all("all => all.map(each => each.href)")
    for address in links[1:]:
        assert page.request.get(address).ok, address
    expect(page.locator("#health")).to_have_text("Collector healthy")
    assert page.get_by_role("link", name="Jaeger").count() == 0, "no Jaeger is configured"
    # The run has the same duration in every view.
    took = page.locator(".facts dd").first.text_content()
    expect(page.locator(".player-clock")).to_have_text(f"{took} / {took}")


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
    panel.get_by_role("button", name="Raw", exact=True).click()
    expect(panel.locator(".content pre")).to_contain_text('"decision_id"')
    panel.get_by_role("button", name="Values").click()
    steps(page).filter(has_text="pricing_agent #1").click()
    expect(panel.locator(".notice")).to_contain_text("RateLimitError")
    expect(panel.locator(".notice").get_by_text("Traceback")).to_be_visible()


def test_span_events_of_the_program_are_on_the_step_and_in_the_events(visit, collector, trace_id):
    """Names and values of a sender are text, never markup."""
    otel = trace_id.removeprefix("trc_")
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    made = spans.add(name="process", trace_id=bytes.fromhex(otel), span_id=bytes([7] * 8))
    made.start_time_unix_nano, made.end_time_unix_nano = 10**18, 10**18 + 9_000_000
    for name, value in (("retry_attempted", "<b>timeout</b>"), ("decision_recorded", "booking")):
        mark = made.events.add(name=name, time_unix_nano=10**18 + 4_000_000)
        mark.attributes.add(key="error").value.string_value = value
    sent = {"Content-Type": "application/x-protobuf"}
    http("POST", f"{collector.url}/v1/traces", request.SerializeToString(), sent)
    wait_until(lambda: http("GET", f"{collector.url}/v1/traces/{otel}").status == 200, timeout=20)

    page = visit.open(f"#/run/{otel}")
    expect(page.get_by_role("tab", name="Events 3")).to_be_visible()
    steps(page).first.click()

    marks = page.locator(".panel-body .span-event")
    expect(marks).to_have_count(2)
    expect(marks.first).to_contain_text("Span event: retry_attempted")
    expect(marks.first).to_contain_text("<b>timeout</b>")
    page.get_by_role("tab", name="Events 3").click()
    expect(page.locator(".event-row").nth(1)).to_contain_text("retry_attempted · error: <b>timeout")
    page.get_by_role("button", name="Decisions").click()
    expect(page.locator(".event-row")).to_have_count(1)


def test_failed_run_shows_its_error_at_the_top(visit, seeded):
    page = visit.open(f"#/run/{seeded[3]['trace_id']}")

    notice = page.locator(".run-head .notice")
    expect(notice).to_contain_text("weather failed: LookupError no such place: Atlantis")
    notice.get_by_role("button", name="Show the step").click()
    expect(page.locator(".details h2")).to_have_text("weather")
    expect(page.locator(".step-row.selected")).to_contain_text("weather")


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


def test_player_shows_events_while_playing(visit, seeded):
    page = open_lima(visit, seeded)
    page.keyboard.press("Home")
    page.get_by_role("button", name="Play", exact=True).click()

    expect(page.get_by_role("tab", name="Events")).to_have_attribute("aria-selected", "true")
    now = page.locator(".event-row.now")
    expect(now).to_have_count(1)
    expect(now.filter(has_text="decided")).to_be_visible()
    page.keyboard.press("Space")
    page.keyboard.press("End")
    expect(now).to_contain_text("run ended")
    expect(now.locator(".event-text")).to_have_attribute("title", re.compile("."))

    page.locator(".step-row").nth(1).click()
    page.get_by_role("button", name="Play", exact=True).click()
    step = page.get_by_role("tab", name="Step")
    expect(step).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Space")


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


def test_steps_and_events_are_read_by_keyboard(visit, seeded):
    page = open_lima(visit, seeded)
    page.keyboard.press("j")
    page.keyboard.press("j")
    tree = page.get_by_role("tree", name="Steps of the run")
    expect(tree).to_be_focused()
    expect(tree).to_have_attribute("aria-activedescendant", "step-1")
    page.keyboard.press("Enter")
    expect(page.locator("#panel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(tree).to_be_focused()

    page.keyboard.press("e")
    taken = page.locator('.event-row[aria-selected="true"]')
    for key in ("ArrowDown", "ArrowDown", "j"):
        page.keyboard.press(key)
    expect(taken).to_have_count(1)
    expect(taken).to_have_attribute("id", "event-2")
    expect(page.get_by_role("listbox", name="Events of the run")).to_be_focused()
    expect(page.locator(".step-row.selected")).to_have_count(1)

    page.get_by_role("tab", name="Events").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Run", exact=True)).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Play or pause")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_steps_are_walked_folded_and_zoomed_by_keyboard(visit, seeded):
    page = open_lima(visit, seeded)
    page.keyboard.press("j")
    page.keyboard.press("ArrowLeft")
    expect(steps(page)).to_have_count(1)
    page.keyboard.press("ArrowRight")
    expect(steps(page)).to_have_count(13)
    page.keyboard.press("j")
    expect(steps(page).nth(1)).to_have_attribute("aria-selected", "true")
    ticks = page.locator(".ticks")
    whole = ticks.inner_html()
    page.keyboard.press("z")
    wait_until(lambda: ticks.inner_html() != whole)
    page.keyboard.press("0")
    wait_until(lambda: ticks.inner_html() == whole)


def test_running_run_grows_live(visit, seeded, collector, trace_id):
    collector.post_events([started(trace_id), tool(trace_id, "first")])
    page = visit.open(f"#/run/{trace_id}")
    expect(steps(page)).to_have_count(2)
    expect(page.locator(".run-title .badge").first).to_contain_text("running")

    steps(page).filter(has_text="first").click()
    page.get_by_role("button", name="Raw", exact=True).click()
    raw = page.locator(".content pre")
    expect(raw).to_contain_text('"tool_name": "first"')
    raw.evaluate("each => { each.marked = true; }")
    collector.post_events([tool(trace_id, "second", 0)])
    expect(steps(page)).to_have_count(3)
    assert raw.evaluate("each => each.marked"), "the step was drawn again under its reader"
    collector.post_events([ended(trace_id)])
    expect(page.locator(".run-title .badge").first).to_contain_text("success")


def agent(trace_id, level, seconds_ago, *, ends=False):
    """Return the start or end event of an agent called by another one."""
    given = {"trace_id": trace_id, "request_id": "r", "agent_name": f"level_{level}"}
    given |= {"span_id": f"{level + 2:016x}", "parent_span_id": f"{level + 1:016x}"}
    if not ends:
        given |= {"input_type": "text", "input_summary": "in", "input_size_bytes": 1}
        return event("agent.execution.started", seconds_ago, **given)
    given |= {"output_type": "text", "output_summary": "out", "output_size_bytes": 1}
    took = {"execution_time_ms": 5, "execution_time_seconds": 0.005, "success": True}
    return event("agent.execution.completed", seconds_ago, **given, **took)


def test_fifty_levels_can_still_be_read(visit, collector, trace_id):
    levels = range(50)
    first = started(trace_id, 9, span_id=f"{1:016x}")
    begun = [agent(trace_id, level, 8 - level / 20) for level in levels]
    done = [agent(trace_id, level, 1 + level / 20, ends=True) for level in levels]
    last = ended(trace_id, span_id=f"{1:016x}")
    assert collector.post_events([first, *begun, *done, last]).json()["accepted"] == 102
    page = visit.open(f"#/run/{trace_id}")

    expect(steps(page).first).to_be_visible()
    page.locator(".waterfall-rows").evaluate("rows => rows.scrollTo(0, 1e9)")
    name = steps(page).filter(has_text="level_49").locator(".step-name")
    expect(name).to_be_visible()
    assert name.evaluate("each => each.scrollWidth <= each.clientWidth"), "the name is cut"


def test_long_run_with_zero_duration_steps_and_unknown_cost(visit, collector, trace_id):
    hours = 8 * 3600
    nothing = tool(trace_id, "حجز 🤖", hours - 60, duration_ms=0)
    last = tool(trace_id, "last", 0, duration_ms=0)
    run = [started(trace_id, hours), nothing, last, ended(trace_id)]
    run[-1]["total_execution_time_ms"] = hours * 1000
    assert collector.post_events(run).json()["accepted"] == 4
    page = visit.open(f"#/run/{trace_id}")

    expect(page.locator(".facts")).to_contain_text("8 h")
    expect(page.locator(".ticks span").nth(1)).to_have_text(re.compile(r"^\d h$"))
    for row in (steps(page).filter(has_text="حجز 🤖"), steps(page).filter(has_text="last")):
        bar, track = row.locator(".step-bar").bounding_box(), row.locator(".track").bounding_box()
        assert bar["width"] >= 2
        assert bar["x"] + bar["width"] <= track["x"] + track["width"] + 0.5
    expect(page.locator(".figures")).to_contain_text("cost not known")
    expect(page.locator(".facts div").filter(has_text="Cost").locator("dd")).to_have_text("\u2013")


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
    # Times count back from now: made first, the start stays before the calls on a slow machine.
    first = started(trace_id, 3)
    calls = [
        tool(trace_id, f"tool_{n}", 2 - n / many, span_id=f"{n + 1:016x}", arguments={"nth": n})
        for n in range(many)
    ]
    assert collector.post_events([first, *calls, ended(trace_id)]).status == 200
    page = visit.open(f"#/run/{trace_id}")

    expect(steps(page).first).to_be_visible()
    assert 10 < steps(page).count() < 120
    page.locator(".waterfall-rows").evaluate("rows => rows.scrollTo(0, 1e9)")
    last = steps(page).filter(has_text=f"tool_{many - 1}")
    expect(last).to_be_visible()
    assert steps(page).count() < 120

    # Step details and events are fetched when they are opened.
    last.click()
    expect(page.locator(".panel-body")).to_contain_text(f"nth: {many - 1}")
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
    expect(first.locator(".content-diff del").first).to_contain_text("Bogotá")
    expect(first.locator(".content-diff ins").first).to_contain_text("Lima")
    expect(page.locator(".diff-row.d-added").first).to_contain_text("pricing_agent")
    page.get_by_role("button", name="Differences").click()
    expect(page.locator(".d-same")).to_have_count(0)
    page.keyboard.press("x")
    expect(first.locator(".content-diff del").first).to_contain_text("Lima")


def test_an_agent_is_plotted(visit, seeded):
    page = visit.open("#/agents")
    row = page.locator("tr").filter(has_text=re.compile("^pricing_agent"))
    expect(row.locator(".spark rect").first).to_be_attached()
    row.get_by_role("link").click()

    expect(page.locator("h1")).to_contain_text("pricing_agent")
    expect(page.locator(".plot").first).to_be_visible()
    expect(page.locator(".plot .failed").first).to_be_attached()
    spread = page.get_by_role("img", name=re.compile("^How long executions took: p50 "))
    expect(spread.locator("rect").first).to_be_visible()
    expect(spread.locator(".percentile-name")).to_have_text(["p50", "p95", "p99"])
    scale = page.locator(".plot-box").filter(has_text="Latency over time").locator("text").nth(2)
    expect(scale).to_have_text(re.compile(r"^(1|1\.2|1\.6|2|3|4|5|6|8|10|12|16)0* m?s$"))
    expect(page.get_by_role("link", name="RateLimitError")).to_be_visible()


def test_plot_text_is_legible_and_idle_agents_show_a_message(visit, seeded):
    page = visit.open("#/agent/pricing_agent")
    letters = page.locator(".plot text")
    expect(page.locator(".percentile-name").first).to_be_visible()
    for width in (1440, 860, 390):
        page.set_viewport_size({"width": width, "height": 844})
        # Ten pixels of letters are about twelve pixels of line height.
        tall = letters.evaluate_all("all => all.map(each => each.getBoundingClientRect().height)")
        assert 11 <= min(tall) <= max(tall) <= 22, (width, min(tall), max(tall))

    nobody = {"executions": 0, "model_calls": 0, "tool_calls": 0}

    def at_rest(route):
        route.fulfill(json=route.fetch().json() | nobody)

    page.route("**/v1/agents/pricing_agent?*", at_rest)
    page.get_by_role("button", name="15 m").click()
    expect(page.get_by_text("It did not run in this window")).to_be_visible()
    expect(page.locator(".plot")).to_have_count(0)


def test_a_conversation_has_its_turns_and_tools(visit, seeded):
    page = visit.open("#/sessions")
    page.get_by_role("link", name="session_0", exact=True).click()

    expect(page.locator(".turn")).to_have_count(3)
    expect(page.locator(".said.user").first).to_have_text("A flight to Bogotá next week, please")
    expect(page.locator(".said.answer").first).to_contain_text("booked")
    page.locator(".rounds summary").first.click()
    expect(page.locator(".round").first).to_contain_text("flights")


def test_unknown_token_counts_are_not_shown_as_zero(visit, collector, trace_id):
    session = f"s_{trace_id}"
    given = {"session_id": session}
    run = [started(trace_id, **given), tool(trace_id, "look", **given), ended(trace_id, **given)]
    assert collector.post_events(run).json()["accepted"] == 3
    path = f"{collector.url}/v1/sessions/{session}"
    wait_until(lambda: http("GET", path).status == 200, message="the session is not stored")
    page = visit.open("#/sessions")
    row = page.locator("tr").filter(has_text=session)

    expect(row.locator("td[data-name=Tokens]")).to_have_text("\u2013")
    row.get_by_role("link").click()
    expect(page.locator(".turn")).to_have_count(1)
    expect(page.locator(".turn header")).not_to_contain_text("token")


def test_collector_view_shows_ingest_and_advice(visit, seeded, collector):
    bad = json.dumps(event("agent.tool.called", 0, trace_id="t")).encode()
    assert collector.post_events([], raw=bad).status == 400
    page = visit.open("#/collector")

    expect(page.locator(".flow-box").first).to_contain_text("Received")
    expect(page.locator(".notice").filter(has_text="refused at the door")).to_be_visible()
    expect(page.locator("tr").filter(has_text="travel-desk").first).to_be_visible()


def test_attempts_in_which_nothing_happened_are_shown_on_request(visit, seeded):
    def many(run, query=""):
        return len(http("GET", f"{visit.url}/v1/traces/{run}{query}").json()["steps"])

    runs = [
        run["trace_id"] for run in http("GET", f"{visit.url}/v1/traces?limit=50").json()["traces"]
    ]
    run = next(each for each in runs if many(each) < many(each, "?attempts=all"))
    page = visit.open(f"#/run/{run}")
    rows, control = page.locator(".step-row"), page.get_by_role("button", name="All attempts")
    expect(rows).to_have_count(many(run))
    control.click()
    expect(rows).to_have_count(many(run, "?attempts=all"))
    expect(control).to_have_attribute("aria-pressed", "true")
    assert "attempts=all" in page.url
    page.reload()
    expect(rows).to_have_count(many(run, "?attempts=all"))
    control.click()
    expect(rows).to_have_count(many(run))
