"""Tests that run against a tape: `@pytest.mark.tracereel_tape("run.tape.ndjson")`."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from tracereel import _recorder
from tracereel import config as _config
from tracereel._recorder import Recorder
from tracereel.tape import header
from tracereel.tape.divergence import DivergenceError, NotAllowedError, TapeEndedError
from tracereel.tape.entry import entry_point, fitting
from tracereel.tape.export import redacted
from tracereel.tape.format import load, parse
from tracereel.tape.guards import NetworkBlockedError
from tracereel.tape.recording import Recordings
from tracereel.tape.replaying import Replaying, replay

_ENDS = (DivergenceError, NetworkBlockedError, NotAllowedError, TapeEndedError)


def run_of(item: Any, *, update: bool) -> "Replaying | Updating":
    """What a marked test is given as `tape_run`.

    Raises:
        pytest.UsageError: the marker names no tape.
    """
    marker = item.get_closest_marker("tracereel_tape")
    if marker is None or len(marker.args) != 1:
        raise pytest.UsageError(
            '@pytest.mark.tracereel_tape takes the path of a tape, as in ("run.tape.ndjson")'
        )
    path = Path(item.path).parent / marker.args[0]
    if update:
        if os.environ.get("CI"):
            raise pytest.UsageError("--tracereel-update makes real calls: it does not run in CI")
        return Updating(path)
    return replay(path, **marker.kwargs)


@contextmanager
def around(run: "Replaying | Updating") -> Iterator[None]:
    """Runs a test within its tape; where it leaves it, the test fails with the report."""
    try:
        with run:
            yield
    except _ENDS as error:
        pytest.fail(f"{error}\n\n{run.report}", pytrace=False)


class Updating:
    """Records a run anew: its calls are made for real, and its tape is replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.original = load(path)
        self._parts: list[dict[str, Any]] = []
        self._before: Any = None
        self.report = _Fine()

    def __enter__(self) -> Self:
        from prometheus_client import CollectorRegistry

        config = _config.load({}, spool_dir=Path("/nonexistent/tracereel"), other_spans=False)
        recorder = _Discarding(config, registry=CollectorRegistry())
        settings = header.Settings(recorder, "all", 1.0, None, keep_parts=self._keep)
        recorder.tape = Recordings(settings)
        self._before, _recorder._active = _recorder._active, recorder  # noqa: SLF001
        return self

    def _keep(self, tape_id: str, part: int, records: list[dict[str, Any]]) -> None:
        self._parts.append({"tape_id": tape_id, "part": part, "records": list(records)})

    def __exit__(self, kind: object, error: BaseException | None, tb: object) -> None:
        _recorder._active = self._before  # noqa: SLF001
        if error is None:
            redacted(parse(self._parts)).save(self._path)

    def call(self, function: Callable[..., Any] | None = None) -> Any:
        """Call the entry point with the arguments of the old tape."""
        target = function if function is not None else entry_point(self.original)
        return Replaying.run_with(target, fitting(target, Replaying.entry_arguments(self.original)))


class _Fine:
    """The report of a run that is being recorded: there is nothing to compare it with."""

    identical = True
    divergences: tuple[()] = ()

    def __str__(self) -> str:
        return "recorded anew"


class _Discarding(Recorder):
    """Keeps no events: only the tape is wanted."""

    def record(self, event: Any, trace: Any, **_: Any) -> None:
        del event, trace

    def record_all(self, events: list[Any], trace: Any, **_: Any) -> None:
        del events, trace

    def keep(self, event: Any, trace: Any, **_: Any) -> None:
        del event, trace
