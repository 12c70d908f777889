"""Class test: the time of every function that reads text grows linearly with hostile input.

Two kinds of functions are found by walking the syntax trees (`tests.support.parser_walk`):

- Module-level functions whose only required argument is annotated as text. All of them are called
  directly: a new one is tested without registration. Those with side effects (files, the network, the
  process) are listed in `NOT_CALLED` with the reason.
- Other functions and methods that convert, split, search or iterate over a text argument.
  Each has a case in `CASES` that calls it, or an entry in `ELSEWHERE` with the case that reaches it or
  the reason why its text is trusted. A new one without either fails the test.

The rule does not find functions that only pass their text on, nor text inside of containers: the
most important of them (provider streams, events, queries) have cases as well.
"""

import importlib
import inspect
import io
import json
import os
import re
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import INVALID_SPAN, StatusCode
from prometheus_client import CollectorRegistry

from tests.support.growth import MOST, excess
from tests.support.parser_walk import Reader, all_readers
from tracereel._core import framework_entries, remote_identity
from tracereel._export import backoff
from tracereel._export.span_redaction import SpanCleaner
from tracereel._redact import rule_windows
from tracereel._redact import rules as redaction
from tracereel._redact.event_redaction import Privacy, class_name
from tracereel._redact.secret_patterns import suspicious
from tracereel._runtime import clock, sse_parser
from tracereel._telemetry import redacted_spans
from tracereel.cli import checks, content, export, terminal
from tracereel.client.sync import parse_replay
from tracereel.client.transport import Transport
from tracereel.demo.law_library import LawLibrary
from tracereel.fleet import prompts
from tracereel.fleet.prices import EstimatePrices, PricedTokens
from tracereel.integrations import _sse_frames
from tracereel.integrations import google as google_integration
from tracereel.providers import streams
from tracereel.tape import codec_types, payloads
from tracereel_collector.auth import claims, keys
from tracereel_collector.engine import refusals, request, statements
from tracereel_collector.http import clickhouse, grpc_frames, page, page_bundle
from tracereel_collector.http import sql as api_sql
from tracereel_collector.ingest import check, events, explain, otlp, otlp_json, quick, scores
from tracereel_collector.ingest import redaction as door
from tracereel_collector.ingest.otlp_schema import LOGS
from tracereel_collector.live import filters as live_filters
from tracereel_collector.model import Kind, Marks
from tracereel_collector.otlp_out.forward import target
from tracereel_collector.query import cursor, diff, passages, window
from tracereel_collector.query.jaeger import parameters, values
from tracereel_collector.query.jaeger import reader as jaeger_reader
from tracereel_collector.query.run import events as run_events
from tracereel_collector.query.user_sql import catalogue, statement_text, tree
from tracereel_collector.queue import deleted, ledger, sessions, waiting
from tracereel_collector.store import prices

LIBRARY = LawLibrary(sleep=lambda _: None)
PUMPS = (
    *(
        "1",
        "0",
        "a",
        "A",
        " ",
        "\t",
        "\n",
        "\r\n",
        ",",
        ";",
        "=",
        ":",
        "/",
        "@",
        "&",
        "?",
        "+",
        "-",
    ),
    *(
        ".",
        "%",
        "%41",
        "\\",
        '"',
        "'",
        "`",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        "\x00",
        "\x1b[",
        "é",
    ),
    *("1,", "a=b,", "a=b;", "&a=1", "1-2,", "-a", "a.", "1.", "a:", "/*", "*/", "--", "$a$", "''"),
    *('{"a":', '"a":', '""', "[1,", "data: {}\n\n", "data: x\n", "event: x\n", "sk-", "-eyJ", "//"),
    *("token:", "a@", "a@b.co ", "\u0323\u0301", "…", "٣", "SELECT ", "WITH a AS (", " (alias "),
    *("2026-01-01T00:00:00", "9e9", "0x", "1h", "90d", "--a\r\n", "[redacted:", "\ud800"),
)
"""Repeated parts of hostile texts; each alone, and after the prefixes below."""
LEADS = ('"', '{"a":"', "a=", "SELECT ")

NOT_CALLED = {
    "tracereel.metrics_server:_warn": "writes a message of ours to the standard error",
    "tracereel:__getattr__": "imports",
    "tracereel._export.span_exporter:set_global_provider": "sets OpenTelemetry's global provider",
    "tracereel.cli.progress:progress": "prints",
    "tracereel.cli.registry:load": "reads what is installed",
    "tracereel.client.exports:whole_file": "opens a file",
    "tracereel.demo.orchestrator:_usual": "makes models of the demo",
    "tracereel.fleet.verdicts:writing": "opens a file",
    "tracereel.resilience:__getattr__": "imports",
    "tracereel.tape:__getattr__": "imports",
    "tracereel.tape.format:load": "opens a file",
    "tracereel.tape.replaying:open_tape": "opens a file",
    "tracereel.tape.replaying:replay": "opens a file",
    "tracereel.tape.replaying:fork": "opens a file",
    "tracereel_collector.runtime.failpoints:_die_here": "ends the process",
    "tracereel_collector.engine.handles:_connect": "opens a database",
    "tracereel_collector.engine.process:_complain": "prints",
    "tracereel_collector.otlp_out.forward.target:_addresses": "asks the resolver",
    "tracereel_collector.commands.backup:_say": "prints",
    "tracereel_collector.processes.serve:_say": "prints",
    "tracereel_collector.store.dialects.content_sql:_block": "repeats a name of the source in SQL",
    "tracereel_collector.telemetry:name_thread": "renames the thread",
}

PRIVACY = Privacy(redaction.Redaction(), capture_content=True)
REDACTOR = door.Redactor(CollectorRegistry())
RULES = refusals.Rules(functions=frozenset(), engines=frozenset())
CATALOGUE = catalogue.build_catalogue(
    "t",
    tables=[("t", "events", "MergeTree"), ("t", "secrets", "MergeTree")],
    columns=[("events", "tenant")],
    system_columns=[],
)
CHECK = check.EventCheck(max_event_bytes=2**22, redactor=REDACTOR)
QUICK = quick.QuickCheck(max_event_bytes=2**22)
OTLP = otlp.OtlpCheck(why_no_event=lambda _line, _tenant: None, redactor=REDACTOR)
MARKS = Marks(users=frozenset({"u"}))
EVENT = {
    "event_id": "evt_1",
    "event_type": "custom.note",
    "timestamp": "2026-01-01T00:00:00Z",
    "trace_id": "t",
}
TAIL = live_filters.TailFilter(text='"aaab" 1112 word').test()


def stream(provider: str, frame: str) -> Callable[[str], object]:
    """Return a stream with a frame per character of a text, split after every fourth byte."""

    def run(text: str) -> object:
        adapter, quiet = streams.adapter_for(provider), streams.adapter_for(provider)
        body = "".join(frame % each for each in text if each.isalnum()) or "data: {}\n\n"
        data = body.encode()
        for at in range(0, len(data), 4):
            adapter.process_bytes(data[at : at + 4])
            quiet.follow_bytes(data[at : at + 4])
        return adapter.finish(), quiet.finish()

    return run


CHAT = 'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n'
CALL = (
    'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c",'
    '"function":{"name":"f","arguments":"%s"}}]}}]}\n\n'
)
CLAUDE = (
    "event: content_block_delta\n"
    'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}\n\n'
)


def byte_by_byte(text: str) -> object:
    parser = sse_parser.SseParser()
    data = text.encode("utf-8", "replace")
    return [parser.feed(data[at : at + 1]) for at in range(len(data))]


def frames_of(text: str) -> object:
    """Return HTTP/2 data frames with a text, split into single bytes."""
    payload = encoded(text)
    data = grpc_frames.PREFACE
    for at in range(0, len(payload), 64):
        part = payload[at : at + 64]
        data += len(part).to_bytes(3) + b"\0\0" + (1).to_bytes(4) + part
    passing = grpc_frames.HeaderFilter()
    return [passing.feed(data[at : at + 1]) for at in range(len(data))]


def event_of(**fields: object) -> dict[str, Any]:
    return {**EVENT, **fields}


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def decide(text: str) -> object:
    statements._parsed_once.cache_clear()
    try:
        return statement_text.read(encoded(text), CATALOGUE)
    finally:
        list(tree._nodes(text))


CASES: dict[str, Callable[[str], object]] = {
    "tracereel.demo.law_library:LawLibrary._search": lambda t: LIBRARY._search("normativa", t, 3),
    "tracereel_collector.query.jaeger.values:plain_value": lambda t: values.plain_value(
        t, values.LIST
    ),
    "tracereel_collector.query.passages:readable": lambda t: passages.readable(t, (t[:50],)),
    "tracereel_collector.query.run.events:with_fields": lambda t: run_events.with_fields(
        json.dumps({"reasoning": t}), {"retry_successful": True}
    ),
    "tracereel._core.framework_entries:load": lambda t: framework_entries.load(t, object(), t),
    "tracereel.fleet.prices:EstimatePrices.cost": lambda t: EstimatePrices().cost(
        t, t, PricedTokens(prompt=1, completion=1)
    ),
    "tracereel.fleet.prompts:_model": lambda t: prompts._model(t, {"body": {}, "path": t}),
    "tracereel_collector.queue.sessions:makes_claim": lambda t: sessions.makes_claim(
        json.dumps({"session_id": t, "user_id": t}).encode(), ()
    ),
    "tracereel._runtime.sse_parser:SseParser.feed": lambda t: sse_parser.SseParser().feed(
        encoded(t)
    ),
    "tracereel._runtime.clock:HybridClock.observe": lambda t: clock.HybridClock().observe(t),
    "tracereel._redact.event_redaction:Privacy.hidden": PRIVACY.hidden,
    "tracereel._telemetry.redacted_spans:PrivateSpan._described": lambda t: (
        redacted_spans.PrivateSpan(INVALID_SPAN, PRIVACY).set_status(StatusCode.ERROR, t)
    ),
    "tracereel._export.backoff:retry_after_seconds": lambda t: backoff.retry_after_seconds(
        t, now=0.0
    ),
    "tracereel._export.span_redaction:SpanCleaner._hides": SpanCleaner(PRIVACY, None)._hides,
    "tracereel.cli.checks:_other_variable": lambda t: checks._other_variable("A", t, {"B"}),
    "tracereel.cli.content:_block": lambda t: list(content._block(t, terminal.Terminal())),
    "tracereel.cli.export:_Shown.write": lambda t: export._Shown(io.BytesIO()).write(encoded(t)),
    "tracereel.cli.terminal:Terminal.shown": lambda t: terminal.Terminal(unicode=False).shown(t),
    "tracereel.client.transport:Transport.document": lambda t: Transport.document(
        object.__new__(Transport), encoded(t)
    ),
    "tracereel.client.sync:parse_replay": lambda t: parse_replay(encoded(t), "x"),
    "tracereel.integrations._sse_frames:FrameReader._take": lambda t: (
        _sse_frames.FrameReader().read(t)
    ),
    "tracereel.integrations.google:_begun": lambda t: google_integration._PATH.search(t),
    "tracereel.tape.codec_types:_complex": lambda t: codec_types._complex(t, t),
    "tracereel.tape.payloads:read": lambda t: payloads.read(f"={t}", {}),
    "tracereel_collector.http.clickhouse:clickhouse_error": lambda t: clickhouse.clickhouse_error(
        400, t, None, {}
    ),
    "tracereel_collector.http.grpc_listener:GrpcClient.data_received": frames_of,
    "tracereel_collector.http.sql:_read": lambda t: api_sql._read(encoded(t), "application/json"),
    "tracereel_collector.auth.keys:parse_expiry": lambda t: keys.parse_expiry(t, now_unix=0.0),
    "tracereel_collector.auth.claims:check_request": lambda t: claims.check_request({}, t, "t"),
    "tracereel_collector.engine.request:_multipart": lambda t: request._multipart(
        "multipart/form-data; boundary=a", encoded(f'--a\r\nname="{t}"\r\n\r\n{t}\r\n--a')
    ),
    "tracereel_collector.engine.statements:_parse_insert": lambda t: statements.parse(
        encoded(f"INSERT INTO x {t}"), RULES
    ),
    "tracereel_collector.otlp_out.forward.target:parse_target": lambda t: target.parse_target(t, t),
    "tracereel_collector.ingest.check:EventCheck._decode": lambda t: CHECK.check(
        events.split_events(encoded(t), content_type="application/x-ndjson")[0], tenant="t"
    ),
    "tracereel_collector.http.page:_body": lambda t: page._body("index.html", bool(t)),
    "tracereel_collector.http.page_bundle:_Joined._add": lambda t: page_bundle.join_modules(
        {"a.js": t}, "a.js", str
    ),
    "tracereel_collector.http.page_bundle:join_styles": lambda t: page_bundle.join_styles(
        {"a.css": t}, "a.css"
    ),
    "tracereel_collector.ingest.explain:explain_field": lambda t: explain.explain_field(t, EVENT),
    "tracereel_collector.ingest.otlp_json:_document": lambda t: otlp_json._document(
        encoded(t), Counter()
    ),
    "tracereel_collector.ingest.quick:QuickCheck.check": lambda t: QUICK.check(encoded(t)),
    "tracereel_collector.ingest.small_bodies:SmallBody.split": lambda t: scores.check_scores(
        encoded(t), now_unix_nano=0, redactor=REDACTOR
    ),
    "tracereel_collector.live.filters:_Query.parse": lambda t: live_filters._Query.parse(t),
    "tracereel_collector.query.cursor:decode": lambda t: cursor.decode(t, "q"),
    "tracereel_collector.query.diff:_texts": lambda t: diff._texts(t, t),
    "tracereel_collector.query.jaeger.reader:_is_written": lambda t: jaeger_reader._is_written(
        "a", t
    ),
    "tracereel_collector.query.jaeger.values:_value": lambda t: [
        values._value(t, kind) for kind in range(1, 8)
    ],
    "tracereel_collector.query.jaeger.values:any_value": lambda t: [
        values.any_value(t, kind) for kind in range(1, 8)
    ],
    "tracereel_collector.query.user_sql.tree:_node": lambda t: tree._node(
        f"Identifier x {t}", depth=0
    ),
    "tracereel_collector.query.user_sql.tree:_cut": lambda t: tree._cut(f" {t})", " (alias "),
    "tracereel_collector.query.window:_moment": lambda t: window.parse_window(t, t, now=0),
    "tracereel_collector.queue.deleted:without": lambda t: deleted.without(
        Kind.EVENTS, encoded(t), MARKS
    ),
    "tracereel_collector.queue.ledger:Seen.parse": lambda t: ledger.Seen.parse(t),
    "tracereel_collector.queue.sessions:flag": lambda t: sessions.flag(encoded(t), {("s", "u")}),
    "tracereel_collector.queue.waiting:_is_of": lambda t: waiting._is_of(encoded(t), "t"),
    "tracereel_collector.store.prices:parse": lambda t: prices.parse(t, name="x"),
}
MORE: dict[str, Callable[[str], object]] = {
    "redaction of a text": PRIVACY.text,
    "redaction: check for suspicious texts": suspicious,
    "redaction: class name of a status": class_name,
    "redaction of an event": lambda t: PRIVACY.clean(event_of(reasoning=t, data={"deep": [t]})),
    "redaction at the door": lambda t: REDACTOR.event(event_of(reasoning=t)),
    "redaction of keys": lambda t: PRIVACY.payload(
        {f"{number}@b.co": 1 for number in range(len(t) // 8)}
    ),
    "headers from outside": lambda t: remote_identity.read_carrier(
        {"traceparent": t, "tracestate": t, "baggage": t}
    ),
    "an event with a long text": lambda t: CHECK.check(
        [encoded('{"event_type":"custom.note","text":"' + t.replace('"', "") + '"}')], tenant="t"
    ),
    "OTLP logs in JSON": lambda t: OTLP.json(LOGS, encoded(t), tenant="t"),
    "a statement": decide,
    "a duration": lambda t: parameters.duration(t),
    "tags": lambda t: parameters._tags([t], [t]),
    "live filter": lambda t: TAIL({"reasoning": t, "input_data": {"a": [t]}}),
    "cut SSE": byte_by_byte,
    "OpenAI text": stream("openai", CHAT),
    "OpenAI arguments": stream("openai", CALL),
    "Anthropic text": stream("anthropic", CLAUDE),
}
FEW = {
    **dict.fromkeys(["a statement", "tracereel_collector.engine.statements:_parse_insert"], 3),
    **dict.fromkeys(["redaction of keys", "cut SSE"], len(PUMPS)),
    **dict.fromkeys(["OpenAI text", "OpenAI arguments", "Anthropic text"], len(PUMPS)),
}
"""Slow cases use every n-th text only; for streams the length matters more than the text."""
ELSEWHERE = {
    "tracereel._redact.rule_windows:WindowedPattern._matches": "test_slow_rule_of_the_program_is_linear",
    "tracereel._redact.secret_patterns:Pattern.apply": "test_time_patterns attacks every rule",
    "tracereel._redact.secret_patterns:Alternative.search": "test_time_patterns attacks every rule",
    "tracereel._redact.secret_patterns:RunPattern.apply": "test_time_patterns attacks every rule",
    "tracereel._core.replay_guard:refusal": "a line that this process wrote",
    "tracereel.fleet.file:FleetFile._header": "one JSON line of bounded length",
    "tracereel.fleet.file:FleetFile._end": "one JSON line of bounded length",
    "tracereel.fleet.pull:_decoded": "one JSON line of an answer of bounded size",
    "tracereel.fleet.worker:_Worker.run": "one JSON line that the runner wrote",
    "tracereel_collector.http.tail_group:GroupTail._placed": "an id of bounded length",
    "tracereel_collector.http.tail_group:places_of": "an id of bounded length",
    "tracereel.cli.sessions:_fitted": "partition of a line that was cut to the terminal's width",
    "tracereel._export.http_client:HttpConnection.__init__": "a setting",
    "tracereel._runtime.sse_parser:SseParser._take_field": "SseParser.feed",
    "tracereel.providers.streams.base:StreamAdapter.follow_bytes": "OpenAI text, OpenAI arguments",
    "tracereel.providers.streams.base:StreamAdapter.process_bytes": "OpenAI text",
    "tracereel.tape.decorator_source:_module_may": "a name in the program's own source",
    "tracereel.tape.modules:_find": "ends at the first part of a name that is not there",
    "tracereel.fleet.pytest_support:_report": "a name that is cut and a report of this process",
    "tracereel.tape.payloads:Payloads._stored": "decodes JSON that was encoded here",
    "tracereel_collector.http.otlp_grpc:GrpcServer._client": "an address that gRPC has written",
    "tracereel_collector.http.jaeger:answers": "paths of our own routes",
    "tracereel_collector.http.sql:_document": "decodes the engine's answer",
    "tracereel_collector.commands.backup:_check_place": "typed by the operator",
    "tracereel_collector.engine.compat:count_statements": "parsed by the engine",
    "tracereel_collector.http.clickhouse_blocks:_u64": "eight bytes",
    "tracereel_collector.ingest.coding_agents:_span_of": "a name of EVENTS",
    "tracereel_collector.engine.lexer:_after_comment": "a statement",
    "tracereel_collector.engine.settings:EngineSettings.from_json": "written by the collector",
    "tracereel_collector.otlp_out.forward.forwarder:Forwarder.offer": "splits a header at commas",
    "tracereel_collector.ingest.check:_mended": "EventCheck._decode",
    "tracereel_collector.ingest.check:_explained": "EventCheck._decode",
    "tracereel_collector.ingest.quick:QuickCheck._may_hold_too_large": "QuickCheck.check",
    "tracereel_collector.commands.migrate:_copied": "typed by the operator",
    "tracereel_collector.query.sessions:Sessions.list_document": "cursor:decode",
    "tracereel_collector.queue.deleted:_is_of": "deleted:without",
    "tracereel_collector.store.clickhouse:StoreAddress.parse": "a setting",
    "tracereel_collector.store.tables:count": "the engine's answer",
}


def texts(pumps: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield every pump alone, and a quarter of them after each prefix."""
    yield from (("", pump) for pump in pumps)
    for index, lead in enumerate(LEADS):
        yield from ((lead, pump) for pump in pumps[index::4])


def too_slow(
    run: Callable[[Any], object], name: str, *, takes_bytes: bool, pumps: tuple[str, ...] = PUMPS
) -> list[str]:
    """Return the inputs under which the time grows too fast."""

    def called(text: Any) -> None:
        urllib.parse.clear_cache()
        result = run(text)
        if inspect.isgenerator(result):
            for _ in result:
                pass

    def making(lead: str, pump: str) -> Callable[[int], Any]:
        def make(size: int) -> Any:
            text = lead + pump * max(1, size // len(pump))
            return text.encode("utf-8", "surrogatepass") if takes_bytes else text

        return make

    found = []
    for lead, pump in texts(pumps):
        if (grown := excess(called, making(lead, pump))) is not None:
            found.append(f"{name} of {lead!r} + {pump!r} * n: {grown}; at most {MOST} is accepted")
            break
    return found


def function_of(reader: Reader) -> Callable[[Any], object]:
    function: Any = getattr(importlib.import_module(reader.module), reader.name)
    # Cached results take no time the second time.
    return getattr(function, "__wrapped__", function)  # type: ignore[no-any-return]


def test_every_function_that_reads_text_has_a_case() -> None:
    readers = list(all_readers())
    names = {each.full_name for each in readers if not each.is_plain}
    plain = {each.full_name for each in readers if each.is_plain}

    assert names == CASES.keys() | ELSEWHERE.keys()
    assert NOT_CALLED.keys() <= plain
    assert not CASES.keys() & ELSEWHERE.keys()


@pytest.fixture
def in_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("in_empty_directory")
def test_time_of_every_plain_function_grows_linearly() -> None:
    found = []
    for reader in all_readers():
        if reader.is_plain and reader.full_name not in NOT_CALLED:
            found += too_slow(function_of(reader), reader.full_name, takes_bytes=reader.takes_bytes)

    assert found == []
    assert os.listdir() == []


@pytest.mark.parametrize("name", [*CASES, *MORE])
def test_time_of_every_parser_grows_linearly(name: str) -> None:
    run = {**CASES, **MORE}[name]

    assert too_slow(run, name, takes_bytes=False, pumps=PUMPS[:: FEW.get(name, 1)]) == []


def test_rule_of_the_program_finds_matches_at_the_edges_of_windows() -> None:
    rule = rule_windows.WindowedPattern("x", re.compile(r"<\w{1,1000}>"))
    for at in range(rule_windows.WINDOW - 1_100, rule_windows.WINDOW + 100, 97):
        text = "a" * at + "<" + "b" * 1_000 + ">" + "a" * 20_000
        hidden: list[str] = []
        assert rule.apply(text, hidden.append) == "a" * at + "[redacted:x]" + "a" * 20_000
        assert hidden == ["x"]
        assert rule.finds(text)


def test_slow_rule_of_the_program_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond one window; a quadratic pattern stays quadratic within it."""
    monkeypatch.setattr(rule_windows, "WINDOW", 512)
    monkeypatch.setattr(rule_windows, "OVERLAP", 64)
    rule = redaction.Redaction(rules=[redaction.Rule("slow", r"\s+x")]).patterns()[0]

    assert excess(rule.finds, lambda size: " " * size) is None
    assert excess(rule.pattern.search, lambda size: " " * size) is not None
