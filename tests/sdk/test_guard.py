"""Errors of ours are counted and logged once; in tests they are raised."""

import logging

import pytest

from tracereel import _guard


def test_swallows_counts_and_logs_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(_guard.RAISE_ENV)
    heard: list[str] = []
    monkeypatch.setattr(_guard, "_listeners", [heard.append])
    before = _guard.errors["here"]
    with caplog.at_level(logging.WARNING, "tracereel"):
        for _ in range(3):
            with _guard.Guard("here"):
                raise ValueError("ours")
    assert _guard.errors["here"] == before + 3
    assert heard == ["here"] * 3
    assert len(caplog.records) == 1


def test_raises_when_asked() -> None:
    with pytest.raises(ValueError, match="ours"), _guard.Guard("here"):
        raise ValueError("ours")


def test_leaves_interrupts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(_guard.RAISE_ENV)
    with pytest.raises(KeyboardInterrupt), _guard.Guard("here"):
        raise KeyboardInterrupt


def test_a_listener_that_raises_hurts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(_guard.RAISE_ENV)
    monkeypatch.setattr(_guard, "_listeners", [lambda _where: 1 / 0])
    with _guard.Guard("here"):
        raise ValueError("ours")
