"""A sender with a write key attacks every field; every surface that shows or uses them is tested.

Nothing is executed (canary files, globals of the page), escaped wrongly (every response is read by a
parser of its format), or printed raw (no control, direction mark or forged line in any output).
"""

import contextlib
import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import unicodedata
import urllib.parse
import uuid
from pathlib import Path

import pyarrow.parquet
import pytest
from playwright.sync_api import expect
from prometheus_client.parser import text_string_to_metric_families

from tests.support import hostile
from tests.support.browser import PATIENCE_MS
from tests.support.collector import CollectorProcess, http
from tests.support.hostile import FORGED, Maker
from tests.support.waiting import wait_until
from tracereel.cli import main
from tracereel.cli.registry import BASE_COMMANDS

expect.set_options(timeout=PATIENCE_MS)
JSON = {"Content-Type": "application/json"}
PROTOBUF = {"Content-Type": "application/x-protobuf"}
HTML_PAGES = {"/", "/docs"}
STREAMS = {"/v1/tail", "/v1/replay/{trace_id}/stream"}
BAD = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class Siege:
    """Collector that received all attacks, and the list of them."""

    def __init__(self, collector, folder):
        self.collector = collector
        self.canary = folder / "canary"
        self.attacks = hostile.attacks(str(self.canary))
        self.makers = {
            name: Maker(attack, turn, _trace_id())
            for turn, (name, attack) in enumerate(self.attacks.items())
        }
        self.metrics_before = families(collector)

    def send(self):
        events = [each for maker in self.makers.values() for each in hostile.events(maker)]
        answer = self._post("/v1/events?wait=stored&timeout=60", events).json()
        assert not answer["rejected"], answer["rejected"][:2]
        for name, maker in self.makers.items():
            for path, made in (
                ("/v1/scores", hostile.scores(maker)),
                ("/v1/heartbeats", hostile.heartbeats(maker)),
            ):
                answer = self._post(path, made)
                assert answer.status in (200, 202), (name, path, answer.body)
                assert not answer.json().get("rejected"), (name, path, answer.body)
            for path, body in hostile.otlp(maker).items():
                answer = http("POST", self.collector.url + path, body, PROTOBUF)
                assert answer.status == 200, (name, path, answer.body)
        wait_until(
            lambda: self.collector.metric("tracereel_records_pending") == 0,
            timeout=60,
            message="not all is stored",
        )

    def _post(self, path, body):
        return http("POST", self.collector.url + path, json.dumps(body).encode(), JSON)

    @contextlib.contextmanager
    def sending(self):
        """Send more attacks in the background, for commands that follow live data."""
        ended = threading.Event()

        def send():
            for turn in range(100):
                makers = (Maker(each, turn, _trace_id()) for each in self.attacks.values())
                self._post("/v1/events", [event for maker in makers for event in fresh(maker)])
                if ended.wait(0.2):
                    return

        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield
        finally:
            ended.set()
            sender.join()

    def check(self):
        assert not self.canary.exists()
        logs = list(self.collector.output)
        for file in (self.collector.data_dir / "audit").glob("*.ndjson"):
            logs += file.read_text("utf-8").split("\n")
        for line in logs:
            assert is_clean(line), ascii(line)
            assert not line.startswith(FORGED)

    @property
    def runs(self):
        return {name: maker.trace_id for name, maker in self.makers.items()}


def _trace_id():
    return f"trc_{uuid.uuid4().hex}"


def fresh(maker):
    """Return events of a separate emitter, because the other numbers are taken."""
    return [each | {"emitter_id": maker.trace_id} for each in hostile.events(maker)]


def families(collector):
    text = http("GET", f"{collector.url}/metrics").body.decode()
    return {each.name for each in text_string_to_metric_families(text)}


def is_clean(text):
    """Return whether a line contains nothing that controls a terminal."""
    return not any(unicodedata.category(c) in BAD for c in text)


@pytest.fixture(scope="module")
def siege(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    running = CollectorProcess(folder / "data").start()
    try:
        made = Siege(running, folder)
        made.send()
        yield made
        made.check()
    finally:
        running.stop()
    made.check()


def test_bodies_that_are_hostile_in_checked_fields_too_are_refused(siege):
    document = http("GET", f"{siege.collector.url}/openapi.json").json()
    posts = [path for path, acts in document["paths"].items() if "post" in acts]
    assert {"/v1/events", "/v1/scores", "/v1/traces", "/v1/logs", "/v1/metrics"} <= set(posts)
    for attack in siege.attacks.values():
        fields = {name: attack for event in hostile.events(siege.makers["html"]) for name in event}
        numbers = dict.fromkeys(fields, 10**400)
        for path in posts:
            target = siege.collector.url + path.replace("{", "%7B").replace("}", "%7D")
            for body in (fields, {**fields, "event_type": "agent.tool.called"}, numbers, attack):
                answer = http("POST", target, json.dumps(body).encode(), JSON)
                assert answer.status < 500 or answer.status == 501, (path, answer.body)
                read(path, answer)
    siege.check()


def test_every_route_responds_in_its_declared_format(siege):
    document = http("GET", f"{siege.collector.url}/openapi.json").json()
    names = list(siege.attacks.values())
    seen = 0
    for path, acts in document["paths"].items():
        if "get" not in acts or path in STREAMS:
            continue
        for attack, trace_id in zip(names, siege.runs.values(), strict=True):
            given = {"trace_id": trace_id, "a": trace_id, "b": siege.runs["html"]}
            filled = path
            while "{" in filled:
                before, _, rest = filled.partition("{")
                name, _, after = rest.partition("}")
                value = given.get(name.partition(":")[0], attack)
                filled = before + urllib.parse.quote(value, safe="") + after
            answer = http("GET", siege.collector.url + filled, headers={"Accept": "*/*"})
            read(path, answer)
            seen += 1
            if "{" not in path:
                break
    assert seen > 100
    siege.check()


def read(path, answer):
    """Parse a response in its format and check that no part is executable by a browser."""
    assert answer.status < 500 or answer.status in (501, 503), (path, answer.body[:300])
    assert answer.headers.get("x-content-type-options") == "nosniff", (path, answer.headers)
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if kind == "text/html":
        assert path in HTML_PAGES
    elif kind == "application/json" and answer.body:
        json.loads(answer.body)
    elif "ndjson" in kind:
        for line in answer.body.splitlines():
            json.loads(line)
    for value in answer.headers.values():
        assert is_clean(value), (path, ascii(value))


def test_metrics_of_the_collector_hold_no_family_of_a_sender(siege):
    now = families(siege.collector)

    assert all(each.startswith(("tracereel_", "python_", "process_")) for each in now)
    assert "owned_metric" not in now
    # Counters are created with their first value; a sender cannot create other names.
    assert {each.partition("_")[0] for each in now - siege.metrics_before} <= {"tracereel"}


@pytest.mark.parametrize("table", ["events", "spans", "scores"])
def test_exports_hold_the_strings_as_they_were_sent(siege, table):
    url = f"{siege.collector.url}/v1/export?table={table}"
    lines = http("GET", f"{url}&format=ndjson").body.splitlines()
    rows = [json.loads(line) for line in lines]
    columns = pyarrow.parquet.read_table(
        io.BytesIO(http("GET", f"{url}&format=parquet").body)
    ).to_pylist()

    assert len(columns) == len(rows) > 0
    for made in (rows, columns):
        texts = set(all_texts(made))
        inside = "\n".join(texts)
        for name, attack in siege.attacks.items():
            assert attack in texts or attack in inside, (table, name)


def test_sql_answers_hold_the_names_as_they_were_sent(siege):
    url = f"{siege.collector.url}/v1/sql?format="
    statement = b"SELECT DISTINCT agent_name FROM agent_events WHERE agent_name != '' ORDER BY 1"
    lines = http("POST", f"{url}ndjson", statement).body.splitlines()
    found = {json.loads(line)["agent_name"] for line in lines}
    table = http("POST", f"{url}csv", statement).body.decode()
    rows = {row[0] for row in csv.reader(io.StringIO(table, newline=""), strict=True)}

    assert found == {attack[:256] for attack in siege.attacks.values()}
    assert rows == {*found, "agent_name"}


def all_texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from all_texts(key)
            yield from all_texts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from all_texts(inner)


def test_jaeger_is_answered_with_the_names_as_they_were_sent(siege):
    url = siege.collector.url
    services = http("GET", f"{url}/api/services").json()["data"]
    assert siege.attacks["html"] in services
    for service in services:
        quoted = urllib.parse.quote(service, safe="")
        for path in (
            f"/api/services/{quoted}/operations",
            f"/api/traces?service={quoted}&limit=3",
            f"/api/v3/operations?service={quoted}",
        ):
            answer = http("GET", url + path)
            assert answer.status in (200, 400, 404), (path, answer.body)
            read(path, answer)


def commands(siege):
    """Return command lines of every command that shows received data."""
    at = ["--endpoint", siege.collector.url]
    for name, trace_id in siege.runs.items():
        attack = siege.attacks[name]
        yield ["trace", trace_id, *at]
        yield ["replay", trace_id, *at]
        yield ["replay", trace_id, "--play", "--speed", "0", *at]
        yield ["replay", trace_id, "--at", "5", *at]
        yield ["replay", trace_id, "--json", *at]
        yield ["diff", trace_id, siege.runs["html"], *at]
        yield ["score", "tone", "good", "--run", trace_id, *at]
        yield ["bisect", trace_id, "--good", "HEAD", *at]
        yield ["verify", "--failing", trace_id, *at]
        if "\x00" not in attack and not attack.startswith("-"):
            yield ["agents", attack, *at]
            yield ["sessions", attack, *at]
            yield ["trace", attack, *at]
            yield ["replay", attack, "--run", *at]
    for listed in ("traces", "agents", "sessions"):
        yield [listed, *at]
        yield [listed, "--json", *at]
    yield ["tail", "-n", "50", *at]
    yield ["tail", "-n", "50", "--json", *at]
    yield ["quarantine", "list", *at]
    yield ["quarantine", "list", "--json", *at]
    yield ["retention", *at]
    yield ["doctor", *at]
    yield ["fleet", "pull", "--output", "runs.fleet", *at]
    yield ["export", "--table", "events", *at]
    for name, records in histories(siege).items():
        Path(name).write_text("".join(json.dumps(each) + "\n" for each in records))
        for form in ("jsonl", "otlp-json", "langfuse"):
            yield ["import", form, name, *at]


def histories(siege):
    """Return files to import whose records are refused, or are not what a format has."""
    attacks = list(siege.attacks.values())
    return {
        "refused.jsonl": [
            {"event_type": attack, "event_id": attack, "timestamp": attack} for attack in attacks
        ],
        "spans.jsonl": [
            {
                "resourceSpans": [
                    {"scopeSpans": [{"spans": [{"traceId": attack, "spanId": attack}]}]}
                ]
            }
            for attack in attacks
        ],
        "observations.jsonl": [
            {"id": attack, "traceId": attack, "startTime": attack, "name": attack}
            for attack in attacks
        ],
        "scores.jsonl": [
            {"traceId": attack, "name": attack, "value": attack} for attack in attacks
        ],
        "shapes.jsonl": [*attacks, attacks, {"resourceSpans": attacks}, {"resourceSpans": 5}],
    }


UNCONCERNED = {"serve", "engine", "keys", "backup", "restore", "migrate-store", "schema", "demo"}
UNCONCERNED |= {"ship", "version"}
"""Commands that show no received data."""


def test_no_command_prints_what_acts_on_a_terminal(siege, capfdbinary, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACEREEL_SPOOL_DIR", str(tmp_path / "spool"))
    tried = {"test-from"}
    for words in commands(siege):
        tried.add(words[0])
        with siege.sending() if words[0] == "tail" else contextlib.nullcontext():
            try:
                status = main(words)
            except SystemExit as stop:
                status = stop.code
        assert status in (0, 1, 2), words
        out, err = capfdbinary.readouterr()
        for text in (out.decode(), err.decode()):
            if words[0] == "export":
                continue  # a pipe gets raw bytes; see the command tests for terminals
            for line in text.split("\n"):
                assert is_clean(line), (words, ascii(line))
                assert not line.startswith(FORGED), words
    assert set(BASE_COMMANDS) <= tried | UNCONCERNED
    siege.check()


PROJECT = """
import os

def wipe(**given):
    open(os.environ["CANARY"], "w").close()

wipe_all = type("Lazy", (), {"__getattr__": lambda self, name: wipe})()
"""
ENTRIES = ("os:system", "victim:wipe", "victim:wipe_all.x", "subprocess:getoutput", "builtins:exec")


@pytest.fixture
def project(tmp_path, monkeypatch, siege):
    """Return a project directory in which the commands run."""
    (tmp_path / "victim.py").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CANARY", str(siege.canary))
    monkeypatch.setenv("TRACEREEL_SPOOL_DIR", str(tmp_path / "spool"))
    # Bytecode written by an import is not a file created by a tape.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    sys.modules.pop("victim", None)


def test_tapes_are_replayed_and_exported_without_running_what_they_hold(
    siege, project, capfdbinary
):
    at = ["--endpoint", siege.collector.url]
    url = f"{siege.collector.url}/v1/events?wait=stored&timeout=60"
    runs = dict(siege.runs)
    events = []
    for entry in ENTRIES:
        maker = Maker(siege.attacks["code"], 1, _trace_id())
        runs[entry] = maker.trace_id
        made = [each for each in hostile.events(maker) if "tape_id" in each]
        for each in made:
            each["records"] = hostile.tape(maker, entry=entry, object=False, folder=".")
            each["emitter_id"] = maker.trace_id
        events += made
    answer = http("POST", url, json.dumps(events).encode(), JSON)
    assert not answer.json()["rejected"], answer.body
    before = {each for each in project.rglob("*") if "spool" not in each.parts}
    exported = set()
    for name, trace_id in runs.items():
        for words in (
            ["replay", trace_id, "--run", *at],
            ["replay", trace_id, "--fork", "--freeze", *at],
            ["test-from", trace_id, "--tape", "copy.tape.ndjson", *at],
            ["test-from", trace_id, "--directory", "tests", *at],
        ):
            status = main(words)
            out, err = capfdbinary.readouterr()
            assert b"result:" not in out, (name, words)
            assert status == 1 or words[0] == "test-from", (name, words, out, err)
            if words[2] == "--directory" and status == 0:
                exported.add(name)
            for line in (out + err).decode().split("\n"):
                assert is_clean(line), (name, words, ascii(line))
    assert exported >= set(ENTRIES)
    made = {each for each in project.rglob("*") if "spool" not in each.parts} - before
    assert {each.parent for each in made if each.is_file()} <= {project, project / "tests"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "passed" not in done.stdout
    assert "SyntaxError" not in done.stdout
    for line in (done.stdout + done.stderr).split("\n"):
        assert is_clean(line), ascii(line)
    siege.check()


def test_a_damaged_tape_is_named_as_the_reason(siege):
    maker = Maker(siege.attacks["escapes"], 1, _trace_id())
    (event,) = (each for each in hostile.events(maker) if "tape_id" in each)
    event |= {"records": [{"r": "run", "environment": ["PATH"]}], "emitter_id": maker.trace_id}
    url = f"{siege.collector.url}/v1/events?wait=stored&timeout=60"
    assert not http("POST", url, json.dumps(event).encode(), JSON).json()["rejected"]

    path = f"{siege.collector.url}/v1/traces/{maker.trace_id}/replayable"
    found = http("GET", path).json()
    assert (found["replayable"], found["command"]) == ("no", None)
    assert "is damaged" in found["reasons"][0]

    replayed = {
        **event,
        "event_id": f"{event['event_id']}r",
        "emitter_id": f"{maker.trace_id}r",
        "records": [{"r": "replayed"}],
    }
    assert not http("POST", url, json.dumps(replayed).encode(), JSON).json()["rejected"]
    assert "is damaged" in http("GET", path).json()["reasons"][0]


UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that change what is seen, or that a terminal obeys."""


@pytest.mark.parametrize("name", ["html", "shell", "bidi", "link"])
def test_the_page_shows_it_as_text_and_copies_what_it_shows(siege, visits, name):
    visit = visits(siege.collector, permissions=["clipboard-read", "clipboard-write"])
    page = visit.open(f"#/run/{siege.runs[name]}")
    expect(page.locator(".step-row").first).to_be_visible()
    command = page.locator(".command code")
    expect(command).to_be_visible()
    page.get_by_role("button", name="Copy command").click()
    expect(page.locator("#toast")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == command.text_content()
    words = shlex.split(copied)
    assert words[:4] == ["tracereel", "replay", siege.runs[name], "--run"]
    there = ["--endpoint", siege.collector.url]
    assert words[4:] in (there, ["module:function", *there])
    page.locator(".step-row").first.click()
    page.get_by_role("radio", name="Raw").or_(page.get_by_role("button", name="Raw")).click()
    blocks = page.locator(".block").filter(has=page.get_by_role("button", name="Copy"))
    expect(blocks.first).to_be_visible()
    for index in range(blocks.count()):
        block = blocks.nth(index)
        if not block.locator("details").first.evaluate("each => each.open"):
            block.locator("summary").first.click()
        inside = block.locator("details > :not(summary)").first
        expect(inside).not_to_be_empty()
        block.get_by_role("button", name="Copy").first.click()
        expect(page.locator("#toast")).to_have_text("Copied")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied
        assert not UNSEEN.search(copied)
    page.keyboard.press("e")
    expect(page.locator(".event-row").first).to_be_visible()
    for fragment in ("#/runs", "#/agents", "#/sessions", "#/collector"):
        page = visit.open(fragment)
        expect(page.locator("main, .grid, .flow-box, .runlist").first).to_be_visible()
    assert page.evaluate("window.pwned") is None
    assert page.url.startswith("http://127.0.0.1")
    strange = "img, iframe, object, embed, a[href^=javascript], main script"
    assert page.locator(strange).count() == 0
