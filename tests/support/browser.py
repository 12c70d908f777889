"""Real browser on a real collector: Debian's Chromium, driven by Playwright."""

import json
import os
import shutil
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.collector import http
from tests.support.waiting import wait_until

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
PATIENCE_MS = 30_000
"""Timeout for elements to appear, generous because the machine may be busy."""
TURNS = 6


@dataclass
class Visit:
    """Tab that records every unexpected error."""

    page: object
    url: str
    troubles: list = field(default_factory=list)

    def open(self, fragment):
        """Open a view; a tab that shows the page only changes its address."""
        self.page.goto(f"{self.url}/{fragment}")
        return self.page

    def watch(self):
        def asked(request):
            if not request.url.startswith((self.url, "data:", "blob:")):
                self.troubles.append(f"asked for {request.url}")

        def said(message):
            # The browser itself logs refusals that a test provokes.
            if message.type == "error" and "Failed to load resource" not in message.text:
                self.troubles.append(f"console: {message.text}")

        def opened(dialog):
            self.troubles.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        self.page.on("request", asked)
        self.page.on("console", said)
        self.page.on("dialog", opened)
        self.page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        return self


# Module scope: while it exists, no other test of the process can run an event loop.
@pytest.fixture(scope="module")
def browser():
    """Return one browser for the tests of a module."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium, or name one in CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield running
        running.close()


@pytest.fixture
def visits(browser):
    """Return a factory of tabs; none of them may have had an error at the end."""
    contexts, made = [], []

    def visit(collector, **options):
        context = browser.new_context(viewport={"width": 1440, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        made.append(Visit(page, collector.url).watch())
        return made[-1]

    yield visit
    for context in contexts:
        context.close()
    troubles = [trouble for each in made for trouble in each.troubles]
    assert not troubles, "\n".join(troubles)


@pytest.fixture
def visit(visits, collector):
    """Return a tab on the shared collector."""
    return visits(collector)


def event(event_type, seconds_ago, **fields):
    """Return an event with the current time."""
    moment = datetime.now(UTC) - timedelta(seconds=seconds_ago)
    return {
        "event_type": event_type,
        "event_id": f"evt_{uuid.uuid4().hex}",
        "timestamp": moment.isoformat().replace("+00:00", "Z"),
        **fields,
    }


def started(trace_id, seconds_ago=1, **fields):
    """Return the start event of a run."""
    given = {"request_id": "r", "pipeline_type": "hand_made", "user_prompt": "by hand", **fields}
    return event("agent.pipeline.started", seconds_ago, trace_id=trace_id, **given)


def tool(trace_id, name, seconds_ago=0.5, **fields):
    """Return a tool call event."""
    given = {"tool_name": name, "status": "success", "duration_ms": 5, **fields}
    return event("agent.tool.called", seconds_ago, trace_id=trace_id, **given)


def ended(trace_id, seconds_ago=0, **fields):
    """Return the end event of a run."""
    counts = dict.fromkeys(
        ("agents_executed", "agents_succeeded", "agents_failed", "agents_retried"), 0
    )
    given = {"request_id": "r", "pipeline_type": "hand_made", "status": "success", **fields}
    return event(
        *("agent.pipeline.completed", seconds_ago),
        trace_id=trace_id,
        total_execution_time_ms=1000,
        **counts,
        **given,
    )


@pytest.fixture(scope="session")
def seeded(collector, tmp_path_factory):
    """Return the runs of the travel desk, oldest first."""
    spool = tmp_path_factory.mktemp("desk")
    program = [sys.executable, "-m", "tests.support.page_program"]
    subprocess.run([*program, collector.url, str(spool), str(TURNS)], check=True, timeout=120)

    def runs():
        answer = http("GET", f"{collector.url}/v1/traces?pipeline=travel_desk&from=1h")
        found = json.loads(answer.body)["traces"]
        settled = [each for each in found if each["status"] != "running"]
        return settled[::-1] if len(settled) == TURNS else None

    return wait_until(runs, timeout=60, message="the runs of the travel desk are not stored")
