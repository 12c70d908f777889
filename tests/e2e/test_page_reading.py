"""Reading a run in a real browser: playback speed, copying, clock skew, the prompt."""

import json
import os
import re
import subprocess
import sys
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE_MS, ended, event, started, tool
from tests.support.collector import http
from tests.support.waiting import wait_until

expect.set_options(timeout=PATIENCE_MS)
LONG_MS = 60_000
FRAME_MS = 16


def steps(page):
    return page.locator(".step-row")


@pytest.fixture
def a_minute(collector, trace_id):
    """Send a run that took a minute."""
    run = [started(trace_id, 60), tool(trace_id, "look", 30), ended(trace_id)]
    run[-1]["total_execution_time_ms"] = LONG_MS
    assert collector.post_events(run).json()["accepted"] == 3
    return trace_id


def moment(page):
    """Return the position of the playhead in milliseconds of the run."""
    part = page.locator(".playhead").evaluate("each => parseFloat(each.style.left)")
    return part / 100 * LONG_MS


@pytest.mark.parametrize(
    ("speed", "factor"),
    [
        ("0.1", 0.1),
        ("0.5", 0.5),
        ("1", 1),
        ("2", 2),
        ("10", 10),
        ("fit", LONG_MS / 15_000),
    ],
)
def test_the_player_keeps_to_the_speed_that_was_chosen(visit, a_minute, speed, factor):
    """Uses a fake clock in the page."""
    page = visit.page
    page.clock.install()
    visit.open(f"#/run/{a_minute}")
    expect(page.get_by_role("tab", name="Events 3")).to_be_visible()
    page.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))
    page.get_by_label("Speed").select_option(speed)
    page.get_by_role("button", name="To the beginning").click()
    page.get_by_role("button", name="Play", exact=True).click()
    assert moment(page) == 0

    page.clock.run_for(2_000)
    after_two = moment(page)
    page.clock.run_for(2_000)

    # The last frame may not be drawn yet.
    assert after_two == pytest.approx(2_000 * factor, abs=2 * FRAME_MS * factor + 1)
    assert moment(page) - after_two == pytest.approx(2_000 * factor, abs=2 * FRAME_MS * factor + 1)
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()


def test_another_speed_is_taken_while_it_plays_and_the_end_is_the_end(visit, a_minute):
    page = visit.page
    page.clock.install()
    visit.open(f"#/run/{a_minute}")
    expect(page.get_by_role("tab", name="Events 3")).to_be_visible()
    page.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))
    speed = page.get_by_label("Speed")
    speed.select_option("1")
    page.get_by_role("button", name="To the beginning").click()
    page.get_by_role("button", name="Play", exact=True).click()
    page.clock.run_for(1_000)
    at_one = moment(page)
    speed.select_option("10")
    page.clock.run_for(1_000)

    assert at_one == pytest.approx(1_000, abs=2 * FRAME_MS + 1)
    assert moment(page) - at_one == pytest.approx(10_000, abs=20 * FRAME_MS + 10)
    speed.select_option("100")
    page.clock.run_for(1_000)
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    expect(page.locator(".player-clock")).to_have_text("1 m / 1 m")


@pytest.fixture
def reader(visit):
    """Return a tab with clipboard access, and a function that reads the clipboard after a click."""
    visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])

    def copied(name, place=None):
        visit.page.evaluate("navigator.clipboard.writeText('')")
        (place or visit.page).get_by_role("button", name=name, exact=True).click()
        expect(visit.page.locator("#toast")).to_have_text("Copied")
        return visit.page.evaluate("navigator.clipboard.readText()")

    return copied


def shown(page, title):
    """Return the text under a heading of the panel."""
    block = page.locator(".panel .block").filter(has=page.get_by_role("heading", name=title))
    return block.locator(".text, pre").first.evaluate("each => each.textContent")


def test_copied_text_equals_the_shown_text(visit, seeded, reader):
    page = visit.open(f"#/run/{seeded[1]['trace_id']}")
    expect(page.get_by_role("tab", name="Events 23")).to_be_visible()

    assert reader("Copy id") == seeded[1]["trace_id"]
    assert reader("Copy Asked") == shown(page, "Asked") == "A flight to Lima next week, please"
    assert reader("Copy Answered") == shown(page, "Answered") == "booked: fly to Lima at 08:10"

    steps(page).filter(has_text="pricing_agent #1").click()
    expect(page.locator(".details h2")).to_have_text("pricing_agent #1")
    trace = reader("Copy Stack trace")
    assert trace == shown(page, "Stack trace")
    assert "RateLimitError: 429" in trace
    page.get_by_role("button", name="Raw", exact=True).click()
    raw = reader("Copy Raw")
    assert raw == page.locator(".content pre").text_content()
    assert {each["agent_name"] for each in json.loads(raw)["events"]} == {"pricing_agent"}


def test_a_long_text_is_there_whole_though_its_beginning_is_shown(
    visit, collector, trace_id, reader
):
    said = "word " * 5_000
    asked = "please " * 1_000
    run = [started(trace_id, user_prompt=asked), tool(trace_id, "tell", result=said)]
    run.append(ended(trace_id))
    assert collector.post_events(run).json()["accepted"] == 3
    page = visit.open(f"#/run/{trace_id}")
    expect(page.get_by_role("button", name="Show all 7,000 characters")).to_be_visible()
    assert reader("Copy Asked") == asked
    steps(page).filter(has_text="tell").click()
    expect(page.get_by_role("button", name="Show all 25,000 characters")).to_be_visible()

    assert page.locator(".content .written").text_content() == said[:6_000]
    expect(page.get_by_text("The first 6,000 are shown.")).to_be_visible()
    assert reader("Copy Result") == said
    page.get_by_role("button", name="Show all 25,000 characters").click()
    expect(page.locator(".content .written")).to_have_text(said, use_inner_text=False)
    assert shown(page, "Result") == said


def remote(trace_id, seconds_ago, took_s):
    """Return an agent of another service, which happened `seconds_ago` by its clock."""
    given = {"trace_id": trace_id, "request_id": "r", "agent_name": "remote_pricing"}
    given |= {"span_id": f"{2:016x}", "parent_span_id": f"{1:016x}", "service": "pricing"}
    begun = {"input_type": "text", "input_summary": "in", "input_size_bytes": 1}
    done = {"output_type": "text", "output_summary": "out", "output_size_bytes": 1}
    took = {"execution_time_ms": took_s * 1000, "execution_time_seconds": took_s}
    return [
        event("agent.execution.started", seconds_ago, **given, **begun),
        event("agent.execution.completed", seconds_ago - took_s, **given, **done, **took),
    ]


def test_clock_skew_notice_names_the_moved_steps(visit, collector, trace_id):
    run = [
        started(trace_id, 9, span_id=f"{1:016x}", service="front"),
        *remote(trace_id, 3600, 3),
        ended(trace_id, 1, span_id=f"{1:016x}", service="front"),
    ]
    run[-1]["total_execution_time_ms"] = 8_000
    assert collector.post_events(run).json()["accepted"] == 4
    page = visit.open(f"#/run/{trace_id}")

    notice = page.locator(".run-head .notice")
    expect(notice).to_contain_text("Clocks disagree.")
    expect(notice).to_contain_text(
        re.compile(r"That of pricing is at least 59 m \d+ s behind: its steps were moved")
    )
    row = steps(page).filter(has_text="remote_pricing")
    expect(row).to_have_attribute("aria-label", re.compile("moved by 59 m .* clocks disagree"))
    expect(row.get_by_title(re.compile("^Moved by 59 m"))).to_have_text("±")
    bar, whole = (each.locator(".step-bar").bounding_box() for each in (row, steps(page).first))
    assert whole["x"] <= bar["x"]
    assert bar["x"] + bar["width"] <= whole["x"] + whole["width"] + 1
    row.click()
    clock = page.locator(".fields div").filter(has_text="Clock").locator("dd")
    expect(clock).to_have_text(re.compile(r"^moved by 59 m \d+ s to fit its caller$"))


def test_clock_ahead_of_the_collector_is_shown_for_a_complete_run(visit, collector, trace_id):
    emitter = f"emt_{uuid.uuid4().hex}"
    numbered = {"emitter_id": emitter, "service": "tomorrow"}
    run = [
        started(trace_id, -300, emitter_seq=1, trace_seq=1, **numbered),
        ended(trace_id, -301, emitter_seq=2, trace_seq=2, trace_event_count=2, **numbered),
    ]
    assert collector.post_events(run).json()["accepted"] == 2
    told = (datetime.now(UTC) + timedelta(seconds=300)).isoformat()
    beat = {"emitter_id": emitter, "service": "tomorrow", "state": "ended", "recorded": 2}
    beat |= {"sent_at": told, "started_at": told, "delivered": 2}
    sent = http("POST", f"{collector.url}/v1/heartbeats", json.dumps(beat).encode())
    assert sent.status == 200, sent.body

    def known():
        return http("GET", f"{collector.url}/v1/traces/{trace_id}/completeness").json()["clocks"]

    wait_until(known, timeout=60, message="the clock of the emitter is not known")
    page = visit.open(f"#/run/{trace_id}")

    expect(page.locator(".run-head .notice")).to_contain_text(
        re.compile(r"Clocks disagree\. That of tomorrow is [45] m[ \d s]* ahead of the collector's")
    )


def test_a_question_stands_in_list_run_and_conversation_as_it_was_asked(visit, collector, tmp_path):
    """For an agent that responds with Server-Sent Events, without a pipeline around it."""
    demo = [sys.executable, "-m", "tracereel", "demo", "--example", "questions", "--runs", "1"]
    ran = subprocess.run(
        [*demo, "--endpoint", collector.url],
        env={**_bare_environment(), "TRACEREEL_SPOOL_DIR": str(tmp_path)},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    run_id = re.search("^[0-9a-f]{32}", ran.stdout, re.MULTILINE).group()
    asked = "How many weeks of parental leave are there?"

    def listed():
        answer = http("GET", f"{collector.url}/v1/traces?agent=labour_law_expert&from=1h")
        found = [each for each in answer.json()["traces"] if each["trace_id"] == run_id]
        return found and found[0]["status"] == "success"

    wait_until(listed, timeout=60, message="the run is not stored")
    page = visit.open("#/runs?from=1h&agent=labour_law_expert")
    row = page.locator(f'tr[data-run="{run_id}"]')
    expect(row.locator(".prompt")).to_have_text(re.compile(f"^{re.escape(asked)} → "))
    row.locator(".what").click()
    expect(page.get_by_role("heading", name="Asked")).to_be_visible()
    assert shown(page, "Asked") == asked
    page.locator(".belongs").get_by_role("link").first.click()
    expect(page.locator(".said.user")).to_have_text(asked)


def _bare_environment():
    return {k: v for k, v in os.environ.items() if not k.startswith(("TRACEREEL_", "OTEL_"))}
