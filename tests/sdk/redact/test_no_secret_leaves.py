"""No secret or content reaches the spool, the log or a span of a real program."""

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import tracereel
from tests.support.secret_samples import CORPUS, leaks
from tracereel._redact import event_redaction
from tracereel._redact.event_redaction import Privacy
from tracereel.events import EVENT_MODELS, parse_event


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
    """Put the sample into arguments, results, errors, notes, decisions, ids and streams."""

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
    """T23: 200 samples through everything the SDK writes; a grep finds none."""
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


def test_no_content_is_written_without_content_capture(
    tmp_path: Path, exporter: InMemorySpanExporter
) -> None:
    """`capture_content=False`: no content in any field, line or span, with valid events."""
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
    event_redaction.strip_content(event)
    for name in event_redaction.CONTENT.keys() & event.keys():
        assert event[name] == ""
    for name in event_redaction.ERRORS:
        assert event.get(name, "ValueError") == "ValueError"


def test_redaction_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
