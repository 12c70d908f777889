"""Measure the page: its files, a long conversation, a run of 30,000 events, and live events.

    python bench/page.py [--opens 3] [--live-seconds 10] [--rate 1000] [--messages 200]

Uses Chromium (Debian's package) with a real collector. The browser counts long tasks (50 ms and more)
and frame gaps (time between two frames).
"""

import argparse
import http.client
import json
import os
import random
import re
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent))
from bench.conversation import record
from bench.load import event
from bench.query import LONG_RUN, Filler, engine_client
from tests.support.browser import CHROMIUM
from tests.support.collector import CollectorProcess
from tracereel._runtime.clock import rfc3339

WATCH = """
window.tasks = []; window.gaps = [];
new PerformanceObserver((list) => { for (const each of list.getEntries()) tasks.push(each.duration); })
  .observe({ type: "longtask", buffered: true });
let last = performance.now();
(function frame(now) { gaps.push(now - last); last = now; requestAnimationFrame(frame); })(last);
"""
SCROLL = """async () => {
  const rows = document.querySelector(".waterfall-rows");
  for (let step = 0; step < 120; step += 1) {
    rows.scrollTop += 400;
    await new Promise(requestAnimationFrame);
  }
}"""
ANSWER = """() => {
  const each = performance.getEntriesByType("resource").find(({ name }) => name.includes("outline_above"));
  return [each.startTime, each.responseEnd, each.decodedBodySize / 1e6];
}"""
CLICK = """(row) => new Promise((done) => {
  const began = window.clicked = performance.now();
  const watch = new MutationObserver(() => {
    if (!document.querySelector(".conversation .message")) return;
    watch.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
  });
  watch.observe(document.body, { childList: true, subtree: true });
  row.click();
})"""
"""Clicks a step; returns the milliseconds until its first message is painted."""
DRAWN = """async (messages) => {
  const isDrawn = () => document.querySelectorAll(".conversation .message").length >= messages
    && !document.querySelector(".conversation .md.coming");
  while (!isDrawn()) await new Promise(requestAnimationFrame);
  return performance.now() - window.clicked;
}"""
LOADED = """() => ["resource", "navigation"].flatMap((type) => performance.getEntriesByType(type))
  .filter(({ name }) => !name.includes("/v1/") && !name.endsWith("/readyz"))
  .map((each) => [each.encodedBodySize, each.decodedBodySize])"""
BATCH = 50


def told(page: Page, name: str) -> None:
    """Print and reset the browser's counts."""
    tasks, gaps, nodes = page.evaluate(
        "[tasks.splice(0), gaps.splice(0), document.querySelectorAll('*').length]"
    )
    gaps.sort()
    print(
        f"{name:<34}{len(tasks):>4} long tasks, longest {max(tasks, default=0):>5.0f} ms;"
        f" frame gap p99 {gaps[len(gaps) * 99 // 100] if gaps else 0:>5.0f} ms; {nodes} nodes"
    )


def long_run(page: Page, url: str) -> None:
    """Open a long run, scroll, open a step and load all events."""
    began = time.perf_counter()
    page.goto(f"{url}/#/run/{LONG_RUN}")
    page.locator(".step-row").first.wait_for()
    opened = time.perf_counter() - began
    print(f"a run of 30,000 events opens in {opened:.2f} s")
    page.wait_for_load_state("networkidle")
    asked, answered, size = page.evaluate(ANSWER)
    print(f"  asked for after {asked:.0f} ms, there after {answered:.0f} ms ({size:.1f} MB)")
    told(page, "  while it opened")
    page.evaluate(SCROLL)
    told(page, "  scrolled by 48,000 pixels")
    began = time.perf_counter()
    page.locator(".step-row").nth(12).click()
    page.locator(".panel .details h2").wait_for()
    print(f"  a step is shown in {time.perf_counter() - began:.2f} s")
    began = time.perf_counter()
    page.keyboard.press("e")
    page.get_by_text("30,000 events").wait_for(timeout=120_000)
    told(page, f"  all events in {time.perf_counter() - began:.1f} s")


def page_load(page: Page, url: str) -> None:
    """Print what a browser without any file asks for."""
    page.goto(f"{url}/#/runs")
    page.locator("#health.good").wait_for()
    page.wait_for_load_state("load")
    files = page.evaluate(LOADED)
    sent, whole = (sum(each[at] for each in files) / 1e3 for at in (0, 1))
    print(f"the page loads in {len(files)} requests, {sent:.0f} kB compressed, {whole:.0f} kB")


def conversation(browser: Browser, url: str, trace_id: str, *, messages: int) -> None:
    """Open a model call with many messages, all of them new, in a browser that has the page."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.add_init_script(WATCH)
    page_load(page, url)
    page.goto(f"{url}/#/run/{trace_id}")
    row = page.locator('.step-row[aria-label*="model call"]').first
    row.wait_for()
    page.get_by_role("tab", name=re.compile(r"Events \d")).wait_for()
    page.evaluate("[tasks.splice(0), gaps.splice(0)]")
    shown = row.evaluate(CLICK)
    drawn = page.evaluate(DRAWN, messages * 3 // 4)
    print(f"a model call with {messages} messages: first content {shown:.0f} ms after the click")
    told(page, f"  all of it {drawn:.0f} ms")
    page.context.close()


def send(url: str, rate: int, until: float, sent: list[int]) -> None:
    """Send events at a fixed rate in small batches, like several agents."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port)
    rnd, number, began = random.Random(3), 0, time.perf_counter()
    while time.perf_counter() < until:
        lines = []
        for _ in range(BATCH):
            number += 1
            fields: dict[str, Any] = json.loads(event(rnd, "live", number))
            fields["trace_id"] = f"trc_live_{number // 20}"
            fields["timestamp"] = rfc3339(time.time_ns())
            lines.append(json.dumps(fields))
        connection.request(
            *("POST", "/v1/events", "\n".join(lines).encode()),
            {"Content-Type": "application/x-ndjson"},
        )
        connection.getresponse().read()
        time.sleep(max(0.0, began + number / rate - time.perf_counter()))
    sent.append(number)


def live(page: Page, url: str, *, seconds: float, rate: int) -> None:
    """Show the list of runs while events arrive."""
    sent: list[int] = []
    until = time.perf_counter() + seconds
    sender = threading.Thread(target=send, args=(url, rate, until, sent))
    sender.start()
    page.goto(f"{url}/#/runs")
    page.locator(".runlist tbody tr").first.wait_for()
    told(page, "the list of runs opens")
    while sender.is_alive():
        page.wait_for_timeout(250)
    print(f"{sent[0] / seconds:,.0f} live events a second for {seconds:.0f} s")
    told(page, "  the list meanwhile")


def main() -> None:
    """Run the benchmark and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--opens", type=int, default=3)
    parser.add_argument("--live-seconds", type=float, default=10)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=200)
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="tracereel-bench-") as folder,
        sync_playwright() as playwright,
    ):
        collector = CollectorProcess(Path(folder)).start()
        try:
            trace_id = record(collector.url, Path(folder) / "spool", messages=args.messages)
            client = engine_client(collector)
            Filler(client, 1).long_run()
            client.close()
            browser = playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
            )
            print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
            for _ in range(args.opens):
                conversation(browser, collector.url, trace_id, messages=args.messages)
            for number in range(args.opens + 1):
                context = browser.new_context(viewport={"width": 1440, "height": 900})
                page = context.new_page()
                page.add_init_script(WATCH)
                if number < args.opens:
                    long_run(page, collector.url)
                else:
                    live(page, collector.url, seconds=args.live_seconds, rate=args.rate)
                context.close()
            browser.close()
        finally:
            collector.stop()


if __name__ == "__main__":
    main()
