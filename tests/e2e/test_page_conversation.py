"""A model call as a conversation in a real browser, recorded by the real SDK."""

import json
import re
import subprocess
import sys
import uuid

import pytest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE_MS, ended, event, started, tool
from tests.support.collector import http
from tests.support.conversation_program import MARKDOWN, SYSTEM, TURNS
from tests.support.vendored import AXE
from tests.support.waiting import wait_until

expect.set_options(timeout=PATIENCE_MS)
SCREEN = {"width": 390, "height": 844}


def steps(page):
    return page.locator(".step-row")


@pytest.fixture(scope="module")
def talk(collector, tmp_path_factory):
    """Return the trace id of a conversation of twelve turns."""
    spool = tmp_path_factory.mktemp("talk")
    program = [sys.executable, "-m", "tests.support.conversation_program"]
    subprocess.run([*program, collector.url, str(spool)], check=True, timeout=120)

    def stored():
        found = http("GET", f"{collector.url}/v1/traces?agent=desk&from=1h").json()["traces"]
        return next((each["trace_id"] for each in found if each["status"] == "success"), None)

    return wait_until(stored, timeout=60, message="the conversation is not stored")


@pytest.fixture
def last_call(visit, talk):
    """Return the page with the last model call open."""
    page = visit.open(f"#/run/{talk}?step={last_step(visit, talk)}")
    expect(page.locator(".answer .md h5")).to_be_visible()
    return page


def last_step(visit, talk):
    """Return the id of the last model call."""
    run = http("GET", f"{visit.url}/v1/traces/{talk}").json()
    return [step["id"] for step in run["steps"] if step["kind"] == "llm"][-1]


def llm(trace_id, given, said, **fields):
    """Return a model call event."""
    fields = {"span_id": uuid.uuid4().hex[:16], "llm_model": "m", **fields}
    return event(
        *("agent.llm.called", 0.5),
        trace_id=trace_id,
        status="success",
        duration_ms=5,
        input_messages=given,
        output_messages=[{"role": "assistant", "content": said}],
        **fields,
    )


def open_call(visit, collector, trace_id, given, said="ok", **fields):
    """Send a run with one model call, and open it."""
    run = [started(trace_id), llm(trace_id, given, said, **fields), ended(trace_id)]
    assert collector.post_events(run).json()["accepted"] == 3
    page = visit.open(f"#/run/{trace_id}")
    steps(page).nth(1).click()
    expect(page.locator(".answer .message")).to_be_visible()
    return page


def test_only_what_is_new_is_open_and_the_rest_is_one_click_away(last_call):
    page = last_call
    fresh = page.locator(".conversation section[aria-label=Input] > .messages > .message")
    expect(fresh.locator("h4")).to_have_text(["Tool"])
    result = fresh.locator(".call")
    expect(result).to_contain_text("flights")
    expect(result.locator("[aria-label=Arguments]")).to_contain_text("to: LIM")
    expect(result.locator(".result")).to_contain_text("LA 2461")

    earlier = page.locator(".earlier")
    many = 1 + 4 * (TURNS - 1) + 2
    expect(earlier.locator("summary").first).to_contain_text(
        f"{many} earlier messages, as in the previous call"
    )
    expect(earlier.locator(".message")).to_have_count(0)
    earlier.locator("summary").first.click()
    # Every result stands with its call, except the one of the last call, which is new.
    expect(earlier.locator(".message")).to_have_count(1 + 3 * (TURNS - 1) + 2)
    roles = earlier.locator("h4").all_text_contents()
    turn = ["User", "Assistant", "Assistant"]
    assert roles == ["System", *turn * (TURNS - 1), "User", "Assistant"]
    said = earlier.text_content()
    assert [f"Question {n}:" in said for n in range(TURNS)] == [True] * TURNS
    assert "\\n" not in said
    assert '{"' not in said


def test_the_previous_call_is_linked(last_call):
    page = last_call
    chosen = page.url
    page.get_by_role("link", name="Show the previous call").click()

    expect(page.locator(".answer .call")).to_contain_text("flights")
    assert page.url != chosen
    expect(page.locator(".step-row.selected")).to_be_visible()


def test_markdown_is_laid_out_and_no_link_leads_to_code(last_call):
    answer = last_call.locator(".answer .md")

    expect(answer.locator("h5")).to_have_text(f"Flights on day {TURNS - 1}")
    expect(answer.locator("strong")).to_have_text("second")
    expect(answer.locator("ol li")).to_have_text(["LA 2461 with economy", "AM 47"])
    expect(answer.locator("td")).to_have_text(["LA 2461", "210"])
    expect(answer.locator("blockquote")).to_have_text("Fares change daily.")
    expect(answer.locator("pre code")).to_have_text(f'print("day {TURNS - 1}")')
    links = answer.locator("a").evaluate_all("all => all.map(each => [each.href, each.rel])")
    assert links == [[f"https://example.com/{TURNS - 1}", "noopener noreferrer"]]
    expect(answer).to_contain_text("(javascript:alert(1))")


def test_instructions_and_thinking_are_folded_and_the_image_is_shown(last_call):
    page = last_call
    page.locator(".earlier summary").first.click()
    system = page.locator(".message.r-system")
    expect(system.locator(".md")).to_have_count(0)
    system.locator("summary").click()
    expect(system.locator(".md li").first).to_have_text("answer briefly")
    thinking = page.locator(".thinking").last
    expect(thinking).to_contain_text("Thinking")
    expect(thinking).not_to_contain_text("I need the flights")
    thinking.locator("summary").click()
    expect(thinking).to_contain_text(f"Day {TURNS - 1}: I need the flights.")

    image = page.locator(".message img")
    image.scroll_into_view_if_needed()
    expect(image).to_have_js_property("naturalWidth", 24)
    assert image.get_attribute("src").startswith("data:image/png;base64,")


def test_figures_of_the_call_are_those_of_its_own_event(last_call):
    fields = last_call.locator(".details .fields")

    for name, value in {
        "Finish reason": "end_turn",
        "First token": "312 ms",
        "Cached": "512",
        "Reasoning": "32",
    }.items():
        expect(fields.locator("div").filter(has_text=name).locator("dd")).to_have_text(value)


def test_copying_gives_the_whole_text(last_call):
    page = last_call
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])

    def copied(name, place):
        place.get_by_role("button", name=name, exact=True).click()
        expect(page.locator("#toast")).to_have_text("Copied")
        return page.evaluate("navigator.clipboard.readText()")

    answer = page.locator(".answer")
    assert copied("Copy Assistant message", answer) == MARKDOWN.format(n=TURNS - 1)
    assert copied("Copy python code", answer) == f'print("day {TURNS - 1}")'
    page.locator(".earlier summary").first.click()
    assert copied("Copy System message", page.locator(".earlier")) == SYSTEM


def test_json_is_a_tree_that_can_be_searched_and_raw_is_what_was_sent(last_call):
    page = last_call
    page.get_by_role("button", name="JSON", exact=True).click()
    tree = page.locator(".content .tree")
    expect(tree).to_contain_text("kind: model")
    field = page.get_by_role("searchbox", name="Search in the content")
    field.fill("QUESTION 7:")
    expect(page.locator(".search-line [role=status]")).to_have_text("1 of 1")
    expect(tree.locator(".hit")).to_contain_text("Question 7: which flight")
    expect(tree.locator(".hit")).to_be_in_viewport()
    field.fill("Day 3")
    expect(page.locator(".search-line [role=status]")).to_have_text(re.compile("^1 of [2-9]"))
    field.press("Enter")
    expect(page.locator(".search-line [role=status]")).to_have_text(re.compile("^2 of"))
    field.fill("nothing like it")
    expect(page.locator(".search-line [role=status]")).to_have_text("Not found")

    page.get_by_role("button", name="Raw", exact=True).click()
    expect(page.locator(".content .written")).to_contain_text('"event_type": "agent.llm.called"')
    page.get_by_role("button", name="Chat", exact=True).click()
    expect(page.locator(".answer .md h5")).to_be_visible()


def test_a_long_list_in_the_tree_comes_in_pages(visit, collector, trace_id):
    numbers = [f"item {n}" for n in range(25_000)]
    run = [started(trace_id), tool(trace_id, "list", result=numbers), ended(trace_id)]
    assert collector.post_events(run).json()["accepted"] == 3
    page = visit.open(f"#/run/{trace_id}")
    steps(page).nth(1).click()
    expect(page.locator(".tree li").filter(has_text="item 0").first).to_be_visible()

    assert page.locator(".tree li").count() < 300
    page.get_by_role("button", name="JSON", exact=True).click()
    page.get_by_role("searchbox").fill("item 24321")
    expect(page.locator(".tree .hit")).to_have_text("24321: item 24321")
    assert page.locator(".tree li").count() < 900


def test_nothing_is_shown_before_it_is_there_whole(visit, collector, trace_id):
    said = "entire " * 4_000
    run = [started(trace_id, user_prompt=said), tool(trace_id, "t", result=said), ended(trace_id)]
    assert collector.post_events(run).json()["accepted"] == 3
    page = visit.page
    held = []
    page.route("**/content", lambda route: held.append(route))
    visit.open(f"#/run/{trace_id}")
    expect(page.locator(".panel")).to_contain_text("Reading the question …")
    assert "entire" not in page.locator(".panel").text_content()
    expect(page.get_by_role("button", name="Copy Asked")).to_have_count(0)
    steps(page).nth(1).click()
    expect(page.locator(".panel")).to_contain_text("Reading the content …")
    assert "entire" not in page.locator(".panel").text_content()

    for route in held:
        route.continue_()
    expect(page.get_by_role("button", name="Show all 28,000 characters")).to_be_visible()


def test_removed_text_is_marked_in_its_place(visit, collector, trace_id):
    text = "begin …[12345 characters removed]… end"
    page = open_call(visit, collector, trace_id, [{"role": "user", "content": text}])

    marks = page.locator(".cut-mark")
    expect(marks).to_have_text("… 12,345 characters removed")
    pieces = page.locator("section[aria-label=Input] .md").all_text_contents()
    assert [piece.strip() for piece in pieces] == ["begin", "end"]


def test_a_text_that_takes_very_long_to_lay_out_is_shown_as_it_is(visit, collector, trace_id):
    slow = "_a_" * 1_900
    deep = ">" * 5_000
    given = [{"role": "user", "content": slow}, {"role": "user", "content": deep}]
    page = open_call(visit, collector, trace_id, given, said="**done**")

    expect(page.locator(".answer strong")).to_have_text("done")
    shown = page.locator("section[aria-label=Input] .message .text")
    expect(shown.nth(1)).to_have_text(deep)
    expect(page.locator(".md.coming")).to_have_count(0)


def test_asked_and_answered_stand_above_the_values_of_an_agent(visit, talk):
    page = visit.open(f"#/run/{talk}")
    steps(page).first.click()

    titles = page.locator(".content .block h3")
    expect(titles.first).to_have_text("Asked")
    expect(titles.nth(1)).to_have_text("Answered")
    answered = page.locator(".content .block").nth(1)
    expect(answered.locator("h5")).to_have_text(f"Flights on day {TURNS - 1}")


def test_the_state_of_a_graph_is_read_as_a_conversation(visit, collector, trace_id):
    asked = [
        {"type": "system", "content": "Be brief."},
        {"type": "human", "content": "Is *Lima* dry?"},
    ]
    call = {"id": "call_1", "name": "climate", "args": {"city": "Lima"}}
    said = [
        {"type": "ai", "content": "", "tool_calls": [call]},
        {"type": "tool", "tool_call_id": "call_1", "content": "9 mm of rain"},
        {"type": "ai", "content": "It is **dry**.\n\nAll year."},
    ]
    sent = [
        started(trace_id, user_prompt=None, input={"messages": asked}),
        ended(trace_id, output={"messages": asked + said, "rounds": 2}),
    ]
    assert collector.post_events(sent).json()["accepted"] == 2
    page = visit.open(f"#/run/{trace_id}")
    steps(page).first.click()

    state = page.locator(".content .conversation")
    expect(state.locator("h4")).to_have_text(["System", "User", "Assistant", "Assistant"])
    expect(state.locator(".call")).to_contain_text("city: Lima")
    expect(state.locator(".call .result")).to_contain_text("9 mm of rain")
    expect(state.locator("strong")).to_have_text("dry")
    values = page.locator(".content [aria-label=Output]")
    expect(values).to_be_hidden()
    page.locator(".content .block", has_text="Output").locator("summary").first.click()
    expect(values).to_contain_text("rounds: 2")


def test_arguments_and_result_of_a_tool_are_values(visit, talk):
    page = visit.open(f"#/run/{talk}")
    page.locator('.step-row[aria-label*="tool call"]').first.click()

    expect(page.locator(".content [aria-label=Arguments]")).to_contain_text("to: LIM")
    expect(page.locator(".content [aria-label=Result]")).to_contain_text("price: 210")


def test_a_score_is_given_to_a_step_and_stays_with_it(last_call, collector, talk):
    page = last_call
    box = page.locator(".scores")
    expect(box).to_contain_text("none yet")
    page.get_by_role("button", name="Score", exact=True).click()
    box.get_by_label("Name").fill("correct")
    box.get_by_label("Value").fill("true")
    box.get_by_label("Comment").fill("right flight")
    box.get_by_role("button", name="Save score").click()

    expect(box.locator("li")).to_contain_text("correct ✓ true")
    expect(box.locator("li")).to_contain_text("right flight")
    stored = http("GET", f"{collector.url}/v1/scores?trace_id={talk}").json()["scores"]
    assert [(each["name"], each["value"], each["source"]) for each in stored] == [
        ("correct", True, "person")
    ]
    steps(page).first.click()
    expect(box).to_contain_text("none yet")


def test_the_panel_is_as_wide_as_it_was_made(visit, talk):
    page = visit.open(f"#/run/{talk}")
    line = page.get_by_role("separator", name="Width of the panel")
    expect(line).to_be_visible()
    panel = page.locator(".panel")
    before = panel.bounding_box()["width"]
    assert before >= 600
    box = line.bounding_box()
    page.mouse.move(box["x"] + 3, 500)
    page.mouse.down()
    page.mouse.move(box["x"] - 97, 500, steps=4)
    page.mouse.up()
    assert panel.bounding_box()["width"] == pytest.approx(before + 100, abs=2)
    line.focus()
    page.keyboard.press("ArrowRight")
    made = panel.bounding_box()["width"]
    assert made == pytest.approx(before + 68, abs=2)
    assert line.get_attribute("aria-valuenow") == str(round(made))
    page.reload()
    expect(steps(page).first).to_be_visible()
    assert panel.bounding_box()["width"] == pytest.approx(made, abs=1)
    line.dblclick()
    assert panel.bounding_box()["width"] == pytest.approx(before, abs=1)


def test_on_a_phone_a_step_covers_the_screen_and_back_leads_to_the_run(visits, collector, talk):
    visit = visits(collector, is_mobile=True, has_touch=True)
    page = visit.page
    page.set_viewport_size(SCREEN)
    visit.open(f"#/run/{talk}")
    step = page.locator('.step-row[aria-label*="model call"]').first
    step.tap()
    expect(page.locator(".answer .call")).to_be_attached()
    box = page.locator(".panel").bounding_box()
    assert (box["x"], box["y"], box["width"], box["height"]) == (0, 0, *SCREEN.values())
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREEN["width"]
    page.get_by_role("button", name="Back to the run").tap()
    expect(page.locator(".run.reading")).to_have_count(0)
    step.tap()
    expect(page.locator(".run.reading")).to_have_count(1)
    page.go_back()
    expect(page.locator(".run.reading")).to_have_count(0)
    expect(step).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_stands_in_the_way_of_assistive_technology(visits, collector, talk, scheme):
    visit = visits(collector, color_scheme=scheme)
    page = visit.open(f"#/run/{talk}")
    calls = page.locator('.step-row[aria-label*="model call"]')
    calls.first.click()
    expect(page.locator(".answer .call")).to_be_visible()
    page.evaluate(AXE.read_text())
    assert problems(page) == []
    visit.open(f"#/run/{talk}?step={last_step(visit, talk)}")
    expect(page.locator(".answer .md h5")).to_be_visible()
    for summary in page.locator(".earlier summary").all():
        summary.click()
    page.locator(".message summary").first.click()
    assert problems(page) == []
    page.get_by_role("button", name="JSON", exact=True).click()
    expect(page.get_by_role("searchbox")).to_be_visible()
    page.get_by_role("searchbox").fill("flight")
    assert problems(page) == []


def problems(page):
    """Return what axe finds, as rule and element."""
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [(each["id"], node["html"][:160]) for each in found for node in each["nodes"][:3]]


def test_content_that_is_not_there_yet_is_marked_and_read_again(collector, visit, sql, trace_id):
    facts = llm(trace_id, None, "ok")
    said = {"input_messages": [{"role": "user", "content": "early " * 2_000}]}
    facts = {name: value for name, value in facts.items() if name not in said}
    compact = json.JSONEncoder(separators=(",", ":")).encode
    line = compact({**facts, "content_bytes": len(compact(said)), **said})
    assert collector.post_events(None, raw=line.encode()).status == 200
    step = facts["span_id"]
    content = f"{collector.url}/v1/traces/{trace_id}/steps/{step}/content"
    assert "omitted" not in http("GET", content).json()
    rows, kept = f"event_content WHERE trace_id = '{trace_id}'", f"kept_{trace_id}"
    sql.command(f"CREATE TABLE {kept} ENGINE = Memory AS SELECT * FROM {rows}")
    sql.command(
        f"ALTER TABLE event_content DELETE WHERE trace_id = '{trace_id}' SETTINGS mutations_sync = 2"
    )

    assert http("GET", content).json()["omitted"] is True
    page = visit.open(f"#/run/{trace_id}?step={step}")
    note = page.get_by_text("Not all of the content can be read yet.")
    expect(note).to_be_visible()
    sql.command(f"INSERT INTO event_content SELECT * FROM {kept}")
    sql.command(f"DROP TABLE {kept}")
    expect(page.locator(".conversation")).to_contain_text("early early")
    expect(note).to_have_count(0)
