"""Re-execution on the page: whether a run is replayable, replay results, and branches."""

import re

import pytest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE_MS, ended, event, started
from tests.support.collector import http
from tests.support.waiting import wait_until

expect.set_options(timeout=PATIENCE_MS)
MARKUP = "<img src=x onerror=alert(1)>"


def run_with(collector, trace_id, *records, replays=()):
    """Send an ended run and its tape."""
    header = {"r": "run", "version": 1, "n": 1, "name": "booking", "entry": "shop.booking:book"}
    header |= {"trace_id": trace_id, "started": "2026-11-16T10:00:00Z"}
    calls = [
        {
            "r": "open",
            "n": n,
            "p": 0,
            "k": "tool",
            "name": "search",
            "c": "sync",
            "a": "={}",
            "t": n,
        }
        for n in (2, 3)
    ]
    given = {"trace_id": trace_id, "tape_version": 1, "part": 0}
    events = [
        started(trace_id),
        ended(trace_id),
        event(
            "agent.tape.recorded",
            0.5,
            **given,
            tape_id=f"tap_{trace_id}",
            records=[header | (records[0] if records else {}), *calls, *records[1:]],
        ),
        *(
            event("agent.tape.recorded", 0.4, **given, tape_id=f"rpl_{n}", records=[each])
            for n, each in enumerate(replays)
        ),
    ]
    assert collector.post_events(events).status == 200
    path = f"{collector.url}/v1/traces/{trace_id}/replayable"
    wait_until(lambda: http("GET", path).json()["recorded"], timeout=30, message="no tape")


CLOSED = {"r": "closed", "how": "returned", "t": 9, "unfinished": 0}


@pytest.fixture
def family(collector, trace_id):
    """Return a run with a diverged replay and a branch."""
    branch = f"{trace_id}-b"
    overrides = [
        {"target": "search", "arguments": {"query": '"tea"'}},
        {"target": 1, "result": "[]"},
    ]
    divergence = {
        "kind": "changed",
        "name": "search",
        "path": f"booking / search {MARKUP}",
        "position": 2,
        "differences": ['query: "tea" → "coffee"'],
        "location": "shop/booking.py:41 in book",
        "detail": "",
    }
    replayed = {"r": "replayed", "time": "2026-11-16T11:00:00Z", "mode": "report", "served": 2}
    replays = [
        {
            **replayed,
            "identical": False,
            "live": 0,
            "divergences": [divergence],
            "divergence_count": 1,
        },
        {**replayed, "mode": "fork", "identical": True, "live": 1, "branch": branch, "at": 2}
        | {"overrides": overrides, "divergences": [], "divergence_count": 0},
    ]
    run_with(collector, trace_id, {}, CLOSED, replays=replays)
    origin = {"trace_id": trace_id, "tape_id": "t", "at": 2, "overrides": overrides}
    run_with(collector, branch, {"forked_from": origin}, CLOSED)
    return trace_id, branch


def test_run_page_shows_replayability_and_command(visit, family):
    page = visit.open(f"#/run/{family[0]}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    command = f"tracereel replay {family[0]} --run --endpoint {visit.url}"

    expect(page.locator(".run-title .replay-yes")).to_have_text(re.compile("replayable$"))
    expect(page.locator(".command code")).to_have_text(command)
    page.get_by_role("button", name="Copy command").click()
    expect(page.locator("#toast")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == command
    expect(page.locator(".again")).to_contain_text("2 calls to models and tools are served")


def test_divergences_of_a_replay_are_shown_with_call_difference_and_line(visit, family):
    page = visit.open(f"#/run/{family[0]}")

    replays = page.locator(".replays li")
    expect(replays).to_have_count(1)
    expect(replays).to_contain_text("diverged 1 time")
    expect(replays).to_contain_text(f"changed call 2, booking / search {MARKUP}")
    expect(replays.locator("pre")).to_have_text('query: "tea" → "coffee"')
    expect(replays).to_contain_text("at shop/booking.py:41 in book")


def test_stopped_replay_shows_the_reason(visit, collector, trace_id):
    why = f"Note: it was stopped: booking / refund would run for real {MARKUP}."
    stopped = {"r": "replayed", "time": "2026-11-16T11:00:00Z", "mode": "strict", "served": 1}
    stopped |= {"identical": False, "live": 0, "divergences": [], "divergence_count": 0}
    run_with(collector, trace_id, {}, CLOSED, replays=[{**stopped, "notes": [why]}])
    page = visit.open(f"#/run/{trace_id}")

    expect(page.locator(".replays li")).to_contain_text("ended early")
    expect(page.locator(".replays li .divergence")).to_have_text(why)


def test_branches_are_a_tree_that_leads_to_them_and_to_the_comparison(visit, family):
    original, branch = family
    page = visit.open(f"#/run/{original}")
    tree = page.locator(".branches")
    expect(tree.locator("li")).to_have_count(2)
    expect(tree.locator(".own")).to_contain_text("this run")
    expect(tree).to_contain_text("from call 2 on")
    expect(tree.locator(".change").first).to_have_text(re.compile(r'search\s+query = "tea"'))

    tree.get_by_role("link", name="booking").click()
    expect(page).to_have_url(re.compile(f"#/run/{branch}"))
    expect(page.locator(".branches .own")).to_contain_text("from call 2 on")
    page.locator(".branches").get_by_role("link", name="Compare").click()

    expect(page).to_have_url(re.compile(f"#/compare/{original}/{branch}"))
    expect(page.locator(".fork-said")).to_contain_text(
        "B is a branch of the other run, with real calls from call 2 on"
    )
    expect(page.locator(".fork-said")).to_contain_text("result = []")


def test_partly_or_not_replayable_run_shows_the_reason(visit, collector, trace_id):
    problem = {"r": "problem", "state": "partly", "reason": f"a result was redacted {MARKUP}"}
    run_with(collector, trace_id, {}, problem, CLOSED)
    page = visit.open(f"#/run/{trace_id}")
    expect(page.locator(".run-title .replay-partly")).to_have_text(re.compile("partly replayable"))
    expect(page.locator(".reasons li")).to_have_text(problem["reason"])

    bare = f"{trace_id}-bare"
    assert collector.post_events([started(bare), ended(bare)]).status == 200
    page = visit.open(f"#/run/{bare}")
    expect(page.locator(".run-title .replay-no")).to_have_text(re.compile("not replayable"))
    expect(page.locator(".reasons li")).to_contain_text("it was not recorded")
    expect(page.locator(".command")).to_have_count(0)

    passed_over = f"{trace_id}-errors"
    begun = {**started(passed_over), "recording": "errors"}
    assert collector.post_events([begun, ended(passed_over)]).status == 200
    page = visit.open(f"#/run/{passed_over}")
    expect(page.locator(".reasons li")).to_contain_text("and nothing failed in this one")

    method = f"{trace_id}-method"
    run_with(collector, method, {"entry": "shop.clerks:Clerk.handle", "object": True}, CLOSED)
    page = visit.open(f"#/run/{method}")
    expect(page.locator(".command code")).to_have_text(
        f"tracereel replay {method} --run shop.clerks:OBJECT.handle --endpoint {visit.url}"
    )
