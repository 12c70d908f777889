"""Comparison of two runs that the SDK recorded: in the API, on the page, on the command line."""

import json
import re
import subprocess
import sys
import uuid

import pytest
from playwright.sync_api import expect

from tests.collector.store.dialects.handwritten import request
from tests.support.browser import PATIENCE_MS, ended, started
from tests.support.collector import http
from tests.support.vendored import AXE
from tests.support.waiting import wait_until

expect.set_options(timeout=PATIENCE_MS)
PROTOBUF = {"content-type": "application/x-protobuf"}


@pytest.fixture(scope="module")
def runs(collector, tmp_path_factory):
    """Return runs to Lima, Lima again, and to Quito with another model."""
    made = []
    for city, model in (("Lima", "gpt-4o"), ("Lima", "gpt-4o"), ("Quito", "gpt-4.1")):
        spool = tmp_path_factory.mktemp("compared")
        program = [sys.executable, "-m", "tests.support.compared_program"]
        subprocess.run([*program, collector.url, str(spool), city, model], check=True, timeout=120)

        def stored():
            found = http("GET", f"{collector.url}/v1/traces?agent=compared_desk&from=1h").json()
            fresh = [each for each in found["traces"] if each["trace_id"] not in made]
            return next((each["trace_id"] for each in fresh if each["status"] == "success"), None)

        made.append(wait_until(stored, timeout=60, message="the run is not stored"))
    return made


def compared(collector, a, b):
    return http("GET", f"{collector.url}/v1/traces/{a}/diff/{b}").json()


def test_two_runs_that_differ_in_fresh_ids_only_are_the_same(collector, runs):
    answer = compared(collector, *runs[:2])

    assert answer["steps"] == []
    assert answer["same"] is True


def test_another_model_and_other_words_are_changes_of_the_call(collector, runs):
    answer = compared(collector, runs[0], runs[2])

    assert (answer["counts"]["added"], answer["counts"]["removed"]) == (0, 0)
    (call,) = [step for step in answer["steps"] if step["kind"] == "llm"]
    assert call["fields"]["model"] == {"a": "gpt-4o", "b": "gpt-4.1"}
    changes = call["fields"]["input"]["messages"]
    assert [(each["change"], each.get("count")) for each in changes] == [
        ("same", 4),
        ("changed", None),
    ]
    assert changes[1]["b"] == {
        "at": 4,
        "role": "user",
        "text": "Take the first flight to Quito then, please.",
    }
    assert call["fields"]["output"]["b"] == "Booked to Quito."


def spans_to(collector, city, answer):
    """Send a run of another instrumentation: an agent with a tool; return its trace id."""
    name = uuid.uuid4().hex[:16]
    call_id = f"call_{uuid.uuid4().hex}"
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "desk",
        "input.value": f"Book to {city}",
        "output.value": f"{answer} ({call_id})",
    }
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "book",
        "gen_ai.tool.call.arguments": json.dumps({"city": city, "id": call_id, "seats": 2}),
        "gen_ai.tool.call.result": "booked",
    }
    body = request(name, [agent, tool])
    assert http("POST", f"{collector.url}/v1/traces?wait=stored", body, PROTOBUF).status == 200
    return name.encode().hex()


def test_tools_and_agents_of_spans_are_compared_by_content(collector, visit):
    one, same, other = (
        spans_to(collector, *each)
        for each in (("Lima", "Booked"), ("Lima", "Booked"), ("Quito", "Sold out"))
    )
    wait_until(lambda: "steps" in compared(collector, one, other))
    assert compared(collector, one, same)["same"] is True

    answer = compared(collector, one, other)
    agent, tool = sorted(answer["steps"], key=lambda step: step["kind"])
    assert (agent["kind"], agent["fields"].keys()) == ("agent", {"input", "output"})
    assert agent["fields"]["input"]["b"] == "Book to Quito"
    assert tool["fields"].keys() == {"input"}
    assert tool["fields"]["input"]["keys"]["changed"] == ["city"]
    page = visit.open(f"#/compare/{one}/{other}")
    expect(page.locator(".diff-row").filter(has_text="book").last).to_contain_text("input")


def test_the_page_marks_words_and_folds_what_is_the_same(visit, runs):
    page = visit.open(f"#/compare/{runs[0]}/{runs[2]}")
    row = page.locator(".diff-row").filter(has_text="gpt-4.1").last
    expect(row).to_contain_text("input, model, output")
    if row.locator("details").first.get_attribute("open") is None:
        row.locator("summary").first.click()

    given = row.locator("[aria-label='Differences of input']")
    expect(given.locator(".same-messages summary")).to_contain_text("4 messages, the same")
    expect(given.locator(".words")).to_have_text("Take the first flight to LimaQuito then, please.")
    expect(given.locator("del")).to_have_text("Lima")
    expect(given.locator("ins")).to_have_text("Quito")
    given.locator(".same-messages summary").click()
    expect(given.locator(".same-messages .message h4")).to_have_text(
        ["System", "User", "Assistant"]
    )
    made = row.locator("[aria-label='Differences of output']")
    expect(made.locator("ins")).to_have_text("Quito")
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    assert [(each["id"], each["nodes"][0]["html"][:160]) for each in found] == []


def test_states_of_graphs_are_compared_message_by_message(visit, collector, trace_id):
    for name, city in (("a", "Lima"), ("b", "Quito")):
        said = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": f"A hotel\nin {city}?", "id": uuid.uuid4().hex},
        ]
        run = f"{trace_id}{name}"
        sent = [started(run, input={"messages": said, "city": city}, user_prompt=None), ended(run)]
        assert collector.post_events(sent).json()["accepted"] == 2
    page = visit.open(f"#/compare/{trace_id}a/{trace_id}b")

    expect(page.locator(".side b:not(.letter)")).to_have_text(["hand_made", "hand_made"])
    given = page.locator("[aria-label='Differences of input']").first
    expect(given.locator(".message.diff-message h4")).to_have_text("user")
    expect(given.locator(".diff-message .words")).to_have_text(
        re.compile(r"A hotel\s+in LimaQuito\?")
    )
    expect(given.locator("del")).to_have_text(["Lima", "Lima"])
    expect(given).to_contain_text("1 message, the same")
    expect(given).not_to_contain_text("\\n")
    expect(given).not_to_contain_text('messages"')


def test_the_other_run_is_found_by_its_words_and_by_its_id(visit, collector, runs, trace_id):
    run = [started(trace_id, 2, user_prompt="a zeppelin to Oaxaca"), ended(trace_id)]
    assert collector.post_events(run).json()["accepted"] == 2
    page = visit.open(f"#/compare/{runs[0]}")
    field = page.get_by_role("searchbox", name="Words of another run, or its id")
    field.fill("zeppelin")
    found = page.locator(".choices tbody tr")
    expect(found).to_have_count(1)
    expect(found).to_contain_text("a zeppelin to Oaxaca")
    field.fill("no such word anywhere")
    expect(page.get_by_text("No run has these words.")).to_be_visible()
    field.fill(runs[2])
    field.press("Enter")
    expect(page.locator(".diff-row").first).to_be_visible()
    assert page.url.endswith(f"#/compare/{runs[0]}/{runs[2]}")


def test_the_command_line_prints_the_messages_that_differ(collector, runs):
    program = [sys.executable, "-m", "tracereel", "diff", "--endpoint", collector.url]
    done = subprocess.run(
        [*program, runs[0], runs[2]], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 1, done.stderr
    assert "input: 4 messages the same, 1 changed" in done.stdout
    assert "- user: Take the first flight to Lima then, please." in done.stdout
    assert "+ user: Take the first flight to Quito then, please." in done.stdout
    as_json = subprocess.run(
        [*program, "--json", runs[0], runs[1]],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(as_json.stdout)["same"] is True
