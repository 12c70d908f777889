"""Internal errors are counted and logged once; in tests they are raised."""

import logging

import pytest

from tracereel._runtime import guard


def test_swallows_counts_and_logs_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(guard.RAISE_ENV)
    heard: list[str] = []
    monkeypatch.setattr(guard, "_listeners", [heard.append])
    before = guard.errors["here"]
    with caplog.at_level(logging.WARNING, "tracereel"):
        for _ in range(3):
            with guard.Guard("here"):
                raise ValueError("ours")
    assert guard.errors["here"] == before + 3
    assert heard == ["here"] * 3
    assert len(caplog.records) == 1


def test_guard_raises_in_test_mode() -> None:
    with pytest.raises(ValueError, match="ours"), guard.Guard("here"):
        raise ValueError("ours")


def test_leaves_interrupts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(guard.RAISE_ENV)
    with pytest.raises(KeyboardInterrupt), guard.Guard("here"):
        raise KeyboardInterrupt


def test_listener_exception_is_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(guard.RAISE_ENV)
    monkeypatch.setattr(guard, "_listeners", [lambda _where: 1 / 0])
    with guard.Guard("here"):
        raise ValueError("ours")
