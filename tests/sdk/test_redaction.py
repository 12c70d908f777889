"""Secrets and personal data never leave: not in the spool, the log, a span; clean text is untouched."""

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import tracereel
from tests.support.secret_samples import CORPUS, KINDS, leaks, secret_part
from tracereel import _privacy, _secrets, _values, redaction, semconv
from tracereel._privacy import Privacy
from tracereel.errors import ConfigurationError
from tracereel.events import EVENT_MODELS, parse_event
from tracereel.redaction import Redaction, Rule, redact
from tracereel.testing import EventRecorder


def privacy(**options: Any) -> Privacy:
    captures = options.pop("capture_content", True)
    return Privacy(Redaction(**options), capture_content=captures)


def completed(**fields: Any) -> dict[str, Any]:
    return {
        "event_id": "evt_019a8c1f7f7f8a9b3c4d5e6f708192a3",
        "event_type": "agent.execution.completed",
        "timestamp": "2026-11-16T03:43:13.167715Z",
        "trace_id": "e3e70682c2094cac629f6fbed82c07cd",
        "agent_name": "parser",
        "request_id": "req_019a8c1f7f7f8a9b3c4d5e6f708192a3",
        "execution_time_ms": 12,
        "execution_time_seconds": 0.012,
        "output_type": "str",
        "output_summary": "",
        "output_size_bytes": 2,
        **fields,
    }


def test_the_corpus_is_large_enough() -> None:
    assert len(CORPUS) >= 200


@pytest.mark.parametrize("kind", KINDS)
def test_every_sample_is_hidden_in_prose_quotes_and_nested_data(kind: str) -> None:
    """The mark is there, the secret is not, the surroundings are."""
    clean = privacy()
    for _, sample in [pair for pair in CORPUS if pair[0] == kind]:
        for around in ("before {} after", "{}", "say '{}', please", "x\n{}\ny", "({})"):
            text = around.format(sample)
            event = completed(reasoning=text, extra={"deep": [{"text": text, text: 1}]})
            clean.clean(event)
            encoded = _values.encode(event).decode()
            assert leaks(encoded) == [], text
            assert "[redacted:" in event["reasoning"]
            assert event["reasoning"].startswith(around.partition("{}")[0])
            parse_event(event)


@pytest.mark.parametrize(
    "kind", sorted(set(KINDS) - {"card", "iban", "phone", "password", "pem", "email"})
)
def test_a_secret_cut_by_the_end_of_a_summary_is_hidden_too(kind: str) -> None:
    """Of a long secret, what the cut leaves beyond twelve characters does not stay."""
    clean = privacy()
    for _, sample in [pair for pair in CORPUS if pair[0] == kind]:
        hidden = secret_part(kind, sample)
        end = sample.index(hidden) + min(14, len(hidden) - 1)
        assert hidden[:12] not in clean.text(f"the key: {sample[:end]}…"), sample


SENSITIVE = ["password", "db_password", "API-Key", "client_secret", "Authorization", "cookie"]


@pytest.mark.parametrize("name", [*SENSITIVE, "private_key", "refreshToken", "X-Api-Key", "cvv"])
def test_values_under_sensitive_keys_are_hidden_whatever_they_look_like(name: str) -> None:
    event = completed(data={"headers": {name: "correct horse", "n": [{name: ["a", 7]}], "ok": 5}})
    privacy().clean(event)
    assert event["data"] == {
        "headers": {
            name: "[redacted:field]",
            "n": [{name: ["[redacted:field]", 0]}],
            "ok": 5,
        }
    }


@pytest.mark.parametrize(
    "text",
    [
        "evt_019a8c1f7f7f8a9b3c4d5e6f708192a3",
        "trc_main_abc123",
        "e3e70682c2094cac629f6fbed82c07cd",
        "00-e3e70682c2094cac629f6fbed82c07cd-e3e70682c2094cac-01",
        "0195f2d4-7c3e-7a1b-9f00-1234567890ab",
        "2026-01-23T10:00:00.123456+02:00 until 2026-01-24 11:30:00",
        "1763264593167715000",
        "1763264593",
        "3.141592653589793 and 1.7976931348623157e+308",
        "task-force and risk-based-approach-2026, sk-learn-based-classifier",
        "pkg@1.2.3 and @scope/pkg and git@github.com:org/repo.git",
        "a basic understanding of bearer certificates",
        "tokens: 120, max_tokens=4096, token count: 17",
        "the cookie: chocolate chip",
        "192.168.100.200:8080, v1.2.3-rc.4, ISBN 978-3-16-148410-0",
        "https://example.com/a:b@c/d?x=1",
        "order 4111111111111112",  # fails the check digit
        "{'who': 'Dr. Pérez', 'when': '10:00', 'room': 'B-12'}",
        "gpt-4o-2024-08-06 and claude-3-5-sonnet-20241022",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    event = completed(reasoning=text, extra={"a": [text]})
    privacy().clean(event)
    assert event == completed(reasoning=text, extra={"a": [text]})


ids = st.one_of(
    st.uuids().map(str),
    st.from_regex(r"(evt|exe|req|trc|dec|emt)_[0-9a-f]{32}", fullmatch=True),
    st.from_regex(r"[0-9a-f]{32}", fullmatch=True),
    st.from_regex(r"[0-9a-f]{16}", fullmatch=True),
    st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
    st.integers(0, 2**31).map(str),
    st.integers(1_500_000_000_000_000_000, 1_999_999_999_999_999_999).map(str),
    st.floats(allow_nan=False).map(str),
)
words = st.lists(st.sampled_from(["the", "agent", "said", "that", "room", "free", "at", "ten"]))


@given(st.lists(ids | words.map(" ".join), max_size=6).map(", ".join))
def test_ids_moments_numbers_and_prose_are_never_changed(text: str) -> None:
    assert privacy().text(text) == redact(text) == text


@given(st.text())
@example("password: ")
@example("-----BEGIN PRIVATE KEY-----")
@example("eyJ" * 40)
@example("a@" * 50)
@example("cookie=" * 20)
@example("'password': '")
def test_the_quick_look_is_never_wrong_to_say_no(text: str) -> None:
    """What it calls clean, the exact rules would not change; and redacting again changes nothing."""
    if not _secrets.suspicious(text):
        assert redact(text) == text
    once = privacy().text(text)
    assert privacy().text(once) == once or len(once) >= 64


@pytest.mark.parametrize(("kind", "sample"), CORPUS[::3])
def test_the_quick_look_sees_every_sample(kind: str, sample: str) -> None:
    assert _secrets.suspicious(sample), kind


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text()
secrets = st.sampled_from([sample for _, sample in CORPUS])
data = st.recursive(
    scalars | secrets | st.binary(max_size=5) | st.builds(object),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5) | st.sampled_from(SENSITIVE), inner, max_size=4)
        | st.tuples(inner)
    ),
    max_leaves=12,
)
actions = st.dictionaries(
    st.sampled_from(["reasoning", "agent_name", "stage", "extra", "output_summary"]),
    st.sampled_from(["drop", "hash", "keep"]),
)


@given(
    data, st.text() | secrets, st.text(min_size=1, max_size=256) | secrets, actions, st.booleans()
)
def test_cleaning_never_raises_keeps_types_and_the_contract(
    extra: object, text: str, name: str, fields: dict[str, Any], captures: bool
) -> None:
    event = completed(
        reasoning=text, output_summary=text[:200], extra=extra, agent_name=name[:256], stage=text
    )
    kinds = {field: type(value) for field, value in event.items()}
    Privacy(Redaction(fields=fields), capture_content=captures).clean(event)
    decoded = json.loads(_values.encode(event))
    parse_event(decoded)
    for field, kind in kinds.items():
        if field != "extra" and event[field] is not None:
            assert type(event[field]) is kind
    assert len(event["output_summary"]) <= semconv.SUMMARY_LIMIT
    if "keep" not in fields.values():
        assert leaks(_values.encode(event).decode()) == []


def test_the_programs_own_data_is_not_changed() -> None:
    mine = {"password": "x1234567", "list": ["ana@example.com"]}
    event = completed(extra=mine)
    privacy().clean(event)
    assert mine == {"password": "x1234567", "list": ["ana@example.com"]}
    assert event["extra"] == {"password": "[redacted:field]", "list": ["[redacted:email]"]}


def test_cycles_and_depth_in_raw_events_end() -> None:
    loop: list[Any] = ["ana@example.com"]
    loop.append(loop)
    event = completed(extra=loop)
    privacy().clean(event)
    assert event["extra"] == ["[redacted:email]", "<cycle>"]


def test_own_rules_and_fields() -> None:
    rules = [Rule("customer", r"\bKD-\d{4}\b"), Rule("pin", re.compile(r"pin (?P<hide>\d+)"))]
    fields = {"stage": "hash", "extra": "drop", "agent_version": "keep", "decision_type": "hash"}
    clean = privacy(rules=rules, fields=fields)
    before = redaction.counts["customer"]
    event = completed(
        reasoning="KD-1234 has pin 99", stage="a@example.com", extra=[1], agent_version="KD-1234"
    )
    clean.clean(event)
    assert event["reasoning"] == "[redacted:customer] has pin [redacted:pin]"
    assert re.fullmatch(r"sha256:[0-9a-f]{16}", event["stage"])
    assert event["stage"] == _privacy.hashed("a@example.com")
    assert event["extra"] is None
    assert event["agent_version"] == "KD-1234"
    assert redaction.counts["customer"] == before + 1


def test_ids_of_people_stay_apart_without_being_told() -> None:
    one, two = completed(user_id="ana@example.com"), completed(user_id="eva@example.com")
    for event in (one, two):
        privacy().clean(event)
    assert one["user_id"] != two["user_id"]
    assert one["user_id"].startswith("sha256:")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Rule("bad name!", "x"),
        lambda: Rule("open", "("),
        lambda: Rule("empty", "x*"),
        lambda: Redaction(fields={"reasoning": "burn"}),  # type: ignore[dict-item]
        lambda: Redaction(fields={"trace_id": "drop"}),
        lambda: Redaction(fields={"retry_count": "hash"}),
        lambda: tracereel.configure(redaction="perhaps"),  # type: ignore[arg-type]
    ],
)
def test_rules_that_cannot_be_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        wrong()


def test_the_tables_agree_with_the_contract() -> None:
    """What may not be dropped is what the models need; content fields stay valid when empty."""
    for model in EVENT_MODELS:
        for name, about in model.model_fields.items():
            if name in _privacy.CONTENT and _privacy.CONTENT[name] is None:
                assert not about.is_required(), name
            if name not in redaction.IDENTITY | redaction.REQUIRED and about.is_required():
                assert about.annotation is str or name in ("timestamp", "agent_name"), (model, name)
            if about.default in (True, False, 0) and about.default is not None:
                assert name in redaction.REQUIRED, name


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    memory = InMemorySpanExporter()
    yield memory
    memory.clear()


def _provider(exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _run_everything(sample: str) -> None:
    """The sample in arguments, results, errors, notes, decisions, ids and the text of streams."""

    @tracereel.traced_tool("search")
    def tool(query: str) -> dict[str, str]:
        return {"found": query, sample: "as a key"}

    @tracereel.traced_llm("model")
    def model(prompt: str) -> list[dict[str, str]]:
        return [{"role": "assistant", "content": prompt}]

    @tracereel.traced_agent("agent")
    def agent(prompt: str, headers: dict[str, str]) -> str:
        current = tracereel.current_execution()
        current.set(reasoning=sample, decision_type=sample, stage=sample)
        tracereel.record_decision(
            "choice",
            reasoning=sample,
            input_data=headers,
            candidates=[sample],
            cache_hit_key=sample,
        )
        tool(sample)
        model(sample)
        return prompt

    @tracereel.traced_agent("failing")
    async def failing(prompt: str) -> None:
        raise ValueError(f"refused: {prompt}")

    @tracereel.traced_pipeline("pipeline")
    def pipeline(user_prompt: str, user_id: str) -> str:
        agent(user_prompt, {"authorization": sample, "x": sample})
        with pytest.raises(ValueError, match="refused"):
            asyncio.run(failing(sample))
        tracereel.current_execution().set(outcome=sample)
        return user_prompt

    pipeline(sample, sample)


def _everything_left_behind(spool: Path, lines: list[str], exporter: InMemorySpanExporter) -> str:
    parts = [path.read_text() for path in spool.rglob("*") if path.is_file()]
    parts.extend(lines)
    parts.extend(span.to_json() for span in exporter.get_finished_spans())
    return "\n".join(parts)


def test_no_sample_reaches_spool_log_or_span(
    tmp_path: Path, exporter: InMemorySpanExporter
) -> None:
    """T23: 200 samples through everything the SDK writes; a grep of it finds none."""
    handler = _Lines()
    logger = logging.getLogger("tracereel.events")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    spool = tmp_path / "leak"
    tracereel.configure(
        endpoint="http://127.0.0.1:1",
        spool_dir=spool,
        tracer_provider=_provider(exporter),
        exit_timeout=0.0,
    )
    try:
        for _, sample in CORPUS:
            _run_everything(sample)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    left = _everything_left_behind(spool, handler.lines, exporter)
    assert left.count("agent.execution.failed") >= len(CORPUS)
    assert len(exporter.get_finished_spans()) >= 4 * len(CORPUS)
    assert left.count("[redacted:") > 10 * len(CORPUS)
    assert leaks(left) == []


def test_without_content_nothing_said_is_written(
    tmp_path: Path, exporter: InMemorySpanExporter
) -> None:
    """`capture_content=False`: not a word of it, in no field, line or span; still valid events."""
    word = "xylophone"
    spool = tmp_path / "quiet"
    tracereel.configure(
        endpoint="http://127.0.0.1:1",
        spool_dir=spool,
        capture_content=False,
        tracer_provider=_provider(exporter),
        exit_timeout=0.0,
    )

    @tracereel.traced_agent("agent")
    def agent(prompt: str) -> str:
        tracereel.current_execution().set(reasoning=prompt)
        tracereel.record_decision("choice", reasoning=prompt, cache_hit_key=prompt, chosen=prompt)
        raise ValueError(f"no {prompt}")

    with pytest.raises(ValueError, match="xylo"):
        agent(word)
    left = _everything_left_behind(spool, [], exporter)
    assert word not in left
    assert "ValueError" in left
    for path in spool.rglob("*.ndjson"):
        for line in path.read_text().splitlines():
            parse_event(json.loads(line))


@pytest.mark.parametrize("model", EVENT_MODELS)
def test_every_type_stays_valid_without_content(model: Any) -> None:
    event: dict[str, Any] = {"event_type": model.model_fields["event_type"].default}
    for name, about in model.model_fields.items():
        if about.annotation is str or name in ("trace_id", "event_id"):
            event.setdefault(name, "ValueError: a secret")
    event["event_version"] = "1.0.0"
    _privacy.strip_content(event)
    for name in _privacy.CONTENT.keys() & event.keys():
        assert event[name] == ""
    for name in _privacy.ERRORS:
        assert event.get(name, "ValueError") == "ValueError"


def test_off_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEREEL_REDACTION", "off")
    tracereel.configure(endpoint="http://127.0.0.1:1", spool_dir=tmp_path / "off", exit_timeout=0.0)

    @tracereel.traced_agent("agent")
    def agent(prompt: str) -> str:
        return prompt

    agent("ana@example.com")
    left = "".join(path.read_text() for path in (tmp_path / "off").rglob("*.ndjson"))
    assert "ana@example.com" in left


def test_an_error_in_the_rules_lets_no_content_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRACEREEL_RAISE_INTERNAL_ERRORS")
    monkeypatch.setattr(Privacy, "clean", lambda *_: 1 / 0)
    tracereel.configure(endpoint="http://127.0.0.1:1", spool_dir=tmp_path / "bad", exit_timeout=0.0)

    @tracereel.traced_agent("agent")
    def agent(prompt: str) -> str:
        return prompt

    assert agent("ana@example.com") == "ana@example.com"
    left = "".join(path.read_text() for path in (tmp_path / "bad").rglob("*.ndjson"))
    assert left.count("agent.execution") == 2
    assert "ana@example.com" not in left


def test_cut_texts_say_what_they_were() -> None:
    """Length and hash of the original, only where something was cut, and not for content left out."""
    long = "é" * 20_000
    event = completed(reasoning=_values.text(long), stage=_values.text("short"))
    privacy().clean(event)
    assert event["reasoning_truncated"] == _values.about_cut(long)
    assert event["reasoning_truncated"]["length"] == 20_000
    assert type(event["reasoning"]) is str
    assert "stage_truncated" not in event
    quiet = completed(reasoning=_values.text(long))
    privacy(capture_content=False).clean(quiet)
    assert "reasoning_truncated" not in quiet


NAMED = [
    (tracereel.traced_agent, "gen_ai.agent.name"),
    (tracereel.traced_pipeline, "gen_ai.workflow.name"),
    (tracereel.traced_llm, "gen_ai.request.model"),
    (tracereel.traced_tool, "gen_ai.tool.name"),
    (tracereel.traced_step, "step.name"),
    (tracereel.traced_retrieval, "retrieval.name"),
]


@pytest.mark.parametrize(("decorator", "attribute"), NAMED)
def test_a_name_is_hidden_on_the_span_as_in_the_event(
    decorator: Any, attribute: str, exporter: InMemorySpanExporter
) -> None:
    with EventRecorder(tracer_provider=_provider(exporter)) as events:
        decorator("for ana@example.com")(lambda: 1)()
    (span,) = exporter.get_finished_spans()
    closed = events.events[-1]
    assert span.name == closed["span_name"]
    assert span.name.endswith(" for [redacted:email]")
    assert dict(span.attributes or {})[attribute] == "for [redacted:email]"


def test_the_spans_of_a_retry_hide_names_too(exporter: InMemorySpanExporter) -> None:
    once = tracereel.retry(1)
    with EventRecorder(tracer_provider=_provider(exporter)) as events:
        once(tracereel.traced_agent("ana@example.com")(once(lambda: 1)))()
    names = sorted(span.name for span in exporter.get_finished_spans())
    assert names == [
        "attempt 1 of [redacted:email]",
        "invoke_agent [redacted:email]",
        "retry [redacted:email]",
    ]
    assert sorted(e["span_name"] for e in events if e.get("span_name")) == names


def test_fields_to_drop_or_hash_are_so_on_spans(exporter: InMemorySpanExporter) -> None:
    rules = Redaction(fields={"agent_name": "hash", "decision_type": "drop", "user_id": "hash"})

    @tracereel.traced_agent("parser", user_id="u1")
    def work() -> None:
        tracereel.current_execution().set(decision_type="d", stage="s")

    with EventRecorder(tracer_provider=_provider(exporter), redaction=rules) as events:
        work()
    (span,) = exporter.get_finished_spans()
    shown, closed = dict(span.attributes or {}), events.events[-1]
    assert closed["agent_name"] == _privacy.hashed("parser")
    assert span.name == closed["span_name"] == f"invoke_agent {_privacy.hashed('parser')}"
    assert shown["agent.name"] == closed["agent_name"]
    assert shown["user.id"] == closed["user_id"] == _privacy.hashed("u1")
    assert "agent.decision_type" not in shown
    assert shown["agent.stage"] == "s"


def test_a_name_is_looked_at_once_for_each_configuration(
    exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tracereel.traced_agent("ana@example.com")(lambda: 1)
    looked: list[Any] = []
    real = Privacy.shown
    monkeypatch.setattr(Privacy, "shown", lambda *args: looked.append(1) or real(*args))
    for redaction_on, name in ((True, "[redacted:email]"), (False, "ana@example.com")):
        exporter.clear()
        with EventRecorder(tracer_provider=_provider(exporter), redaction=redaction_on):
            work()
            work()
        names = [span.name for span in exporter.get_finished_spans()]
        assert names == [f"invoke_agent {name}"] * 2
    assert len(looked) == 2
