"""An attack in every field of every event, including keys: no view executes it."""

import json
import time
import uuid

import pytest
from playwright.sync_api import expect

from tests.support.browser import PATIENCE_MS, ended, event, started, tool
from tests.support.collector import http
from tests.support.waiting import wait_until

expect.set_options(timeout=PATIENCE_MS)
ATTACKS = (
    '<img src=x onerror="window.pwned=1">',
    "<script>window.pwned=1</script>",
    '"><svg onload=window.pwned=1><a href="',
    "javascript:window.pwned=1",
    "[click](javascript:window.pwned=1) ![x](https://evil.example/x.png)",
    '<link rel=stylesheet href="https://evil.example/x.css">',
    "<iframe src=https://evil.example></iframe>",
    "';window.pwned=1;//",
    "${window.pwned=1}{{constructor.constructor('window.pwned=1')()}}",
    "\u202eevil\u0000\u001b[31m\u001b]8;;https://evil.example\u0007x",
    "url(https://evil.example/x.png);color:red",
    "__proto__",
)


def attacked(attack, trace_id):
    """Return a run in which every field is the attack."""
    everywhere = {
        "service": attack,
        "user_id": attack,
        "session_id": attack,
        attack: attack,
        "nested": {attack: [attack, {attack: attack}]},
    }
    agent = {"agent_name": attack, "request_id": "r", **everywhere}
    failed = event(
        *("agent.execution.failed", 0.3),
        trace_id=trace_id,
        error_type=attack,
        error_message=attack,
        error_code=attack,
        stage=attack,
        stack_trace=attack,
        input_at_error={attack: attack},
        was_retried=False,
        retry_count=0,
        max_retries_reached=False,
        fallback_attempted=False,
        execution_time_before_failure_ms=5,
        **agent,
    )
    decided = event(
        *("agent.decision.recorded", 0.4),
        trace_id=trace_id,
        decision_id=attack,
        decision_type=attack,
        reasoning=attack,
        input_data={attack: attack},
        output_data={attack: attack},
        candidates=[attack, {"value": attack, "score": 0.5}],
        chosen=attack,
        **agent,
    )
    thought = event(
        *("agent.llm.called", 0.5),
        trace_id=trace_id,
        status="success",
        duration_ms=10,
        llm_model=attack,
        llm_provider=attack,
        finish_reason=attack,
        input_messages=[{"role": attack, "content": attack}],
        output_messages=[{attack: attack}],
        **agent,
    )
    begun = event(
        *("agent.execution.started", 0.8),
        trace_id=trace_id,
        input_type=attack,
        input_summary=attack,
        input_size_bytes=1,
        **agent,
    )
    spoken = event(
        *("agent.message.normalized", 0.45),
        trace_id=trace_id,
        message_type="text",
        original_index=0,
        role=attack,
        content=attack,
        **agent,
    )
    events = [
        started(trace_id, 0.9, pipeline_type=attack, user_prompt=attack, **everywhere),
        begun,
        thought,
        spoken,
        decided,
        tool(trace_id, attack, arguments=attack, result=attack, agent_name=attack, **everywhere),
        failed,
        event("custom.event", 0.2, trace_id=trace_id, **agent),
        ended(
            trace_id,
            pipeline_type=attack,
            status="failed",
            final_outcome=attack,
            output_summary=attack,
            error_type=attack,
            error_message=attack,
            stack_trace=attack,
            **everywhere,
        ),
    ]
    # Numbered with one gap: the gap and the emitter carry the service name.
    for number, each in enumerate(events, 1):
        nth = number + (number > 2)
        each |= {"emitter_id": f"emt_{trace_id[4:]}", "emitter_seq": nth, "trace_seq": nth}
    return events


def spans_of(trace_id):
    """Return a third-party OTLP span per attack: names, keys, values, service."""
    now = time.time_ns()

    def attribute(key, value):
        return {"key": key, "value": {"stringValue": value}}

    def span(number, attack):
        return {
            "traceId": trace_id,
            "spanId": f"{number + 1:016x}",
            "name": attack,
            "startTimeUnixNano": str(now - 1_000_000),
            "endTimeUnixNano": str(now),
            "status": {"code": 2, "message": attack},
            "attributes": [
                attribute(attack, attack),
                attribute("gen_ai.agent.name", attack),
                attribute("gen_ai.request.model", attack),
                attribute("gen_ai.tool.name", attack),
                attribute("gen_ai.input.messages", attack),
            ],
            "events": [{"name": attack, "attributes": [attribute(attack, attack)]}],
        }

    resources = [
        {
            "resource": {"attributes": [attribute("service.name", attack)]},
            "scopeSpans": [{"scope": {"name": attack}, "spans": [span(number, attack)]}],
        }
        for number, attack in enumerate(ATTACKS)
    ]
    return json.dumps({"resourceSpans": resources}).encode()


@pytest.fixture(scope="module")
def runs(collector):
    """Send a run per attack; ingest accepts every event, so that the page has to show it."""
    made = {attack: f"trc_{uuid.uuid4().hex}" for attack in ATTACKS}
    events = [each for attack, trace_id in made.items() for each in attacked(attack, trace_id)]
    answer = collector.post_events(events).json()
    assert answer["accepted"] == len(events), answer["rejected"][:3]
    return made


def unharmed(page):
    return page.evaluate("window.pwned") is None and page.url.startswith("http://127.0.0.1")


@pytest.mark.parametrize("attack", ATTACKS, ids=range(len(ATTACKS)))
def test_run_of_attacks_is_shown_as_text(visit, runs, attack):
    page = visit.open(f"#/run/{runs[attack]}")
    read_everything(page)
    expect(page.locator(".run-head")).to_contain_text("1 event is missing.")
    expect(page.locator(".run-head .notice").first).to_contain_text("failed: ")


def read_everything(page):
    """Every step in every form, and every event, is shown as text only."""
    expect(page.locator(".step-row").first).to_be_visible()
    for row in range(page.locator(".step-row").count()):
        page.locator(".step-row").nth(row).click()
        for form in ("JSON", "Raw"):
            page.get_by_role("button", name=form, exact=True).click()
            expect(page.locator(".content-body :is(.tree, .written)").first).to_be_visible()
        page.locator(".content-modes button").first.click()
        expect(page.locator(".content-body .md.coming")).to_have_count(0)
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    page.keyboard.press("e")
    expect(page.locator(".event-row").first).to_be_visible()
    page.keyboard.press("r")

    assert unharmed(page)
    strange = "img, iframe, object, embed, link[href^=http], a[href^=javascript], main script"
    assert page.locator(strange).count() == 0


def test_third_party_spans_of_attacks_are_shown_as_text(visit, collector):
    trace_id = uuid.uuid4().hex
    given = {"Content-Type": "application/json"}
    sent = http("POST", f"{collector.url}/v1/traces", spans_of(trace_id), given)
    assert sent.status == 200, sent.body
    page = visit.page
    path = f"{collector.url}/v1/traces/{trace_id}"
    wait_until(lambda: http("GET", path).status == 200, message="the spans are not stored")

    visit.open(f"#/run/{trace_id}")
    read_everything(page)


def test_no_other_view_executes_attacks(visit, runs):
    first, second = list(runs.values())[:2]
    quoted = "%3Cimg%20src%3Dx%20onerror%3Dwindow.pwned%3D1%3E"
    views = {
        "#/runs": ".runlist tbody tr",
        f"#/runs?q={quoted}": ".more",
        f"#/runs?agent={quoted}&user={quoted}": ".chip",
        f"#/compare/{first}/{second}": ".diff-row",
        f"#/compare/{first}": ".heading",
        "#/agents": ".grid tbody tr",
        f"#/agent/{quoted}": ".heading, .state",
        "#/sessions": ".grid tbody tr",
        f"#/session/{quoted}": ".heading, .state",
        f"#/run/{quoted}": ".state",
        f"#/{quoted}": ".state",
        "#/collector": ".flow-box",
    }
    for fragment, part in views.items():
        page = visit.open(fragment)
        expect(page.locator(part).first).to_be_visible()
        assert unharmed(page), fragment
    page = visit.open("#/agents")
    for attack in ATTACKS[:4]:
        page.get_by_role("link", name=attack, exact=True).first.click()
        expect(page.locator(".plot").first).to_be_visible()
        assert unharmed(page)
        page.go_back()
    visit.open("#/sessions")
    for attack in ATTACKS[:4]:
        page.get_by_role("link", name=attack, exact=True).first.click()
        expect(page.locator(".turn").first).to_be_visible()
        page.locator(".rounds summary").first.click()
        assert unharmed(page)
        page.go_back()
    expect(page.locator(".grid tbody tr").first).to_be_visible()
    visit.open("#/collector")
    expect(page.locator("td").filter(has_text=ATTACKS[1]).first).to_be_visible()
    assert unharmed(page)
