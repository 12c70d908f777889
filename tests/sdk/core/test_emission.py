"""What `emit` returns: where an event is when the call is over."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import tracereel
from tests.sdk.conftest import spool_files
from tests.support.ingest_sink import Behaviour, IngestSink

EVENT = {"event_type": "custom.note", "text": "hi"}


def emitted(**options: object) -> str:
    with tracereel.traced_agent("clerk"):
        return tracereel.current_execution().emit(dict(EVENT), **options)  # type: ignore[arg-type]


def test_an_event_is_in_the_spool_when_emit_returns(sink: IngestSink, tmp_path: Path) -> None:
    sink.behaviour = Behaviour(status=503)
    tracereel.configure(endpoint=sink.url, spool_dir=tmp_path / "here")

    with tracereel.traced_agent("clerk"):
        state = tracereel.current_execution().emit(dict(EVENT))
        spool = tmp_path / "here"
        texts = [p.read_text() for p in spool.rglob("*") if p.name in spool_files(spool)]

    assert state == "spooled"
    assert any("custom.note" in text for text in texts)
    sink.behaviour = Behaviour()
    tracereel.flush(20.0)


def test_waiting_ends_at_the_limit_and_the_event_stays_spooled(tmp_path: Path) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{bound.getsockname()[1]}"
        tracereel.configure(endpoint=endpoint, spool_dir=tmp_path, exit_timeout=0)

        assert emitted(wait="stored", timeout=0.05) == "spooled"


def test_a_collector_that_does_not_confirm_is_not_believed(
    recorded: Callable[[], list[dict[str, object]]],
) -> None:
    # The sink acknowledges events but has no store.
    assert emitted(wait="stored", timeout=5) == "spooled"


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "soon"])
def test_a_limit_without_meaning_is_no_wait(
    recorded: Callable[[], list[dict[str, object]]], timeout: object
) -> None:
    assert emitted(wait="stored", timeout=timeout) == "spooled"


def test_a_sampled_event_is_held(sink: IngestSink) -> None:
    tracereel.configure(endpoint=sink.url, sample_rate=0.0)

    assert emitted() == "held"


def test_nothing_is_emitted_without_a_recorder_or_a_call() -> None:
    tracereel.configure(enabled=False)

    assert emitted() == "dropped"
    assert tracereel.current_execution().emit(dict(EVENT)) == "dropped"
