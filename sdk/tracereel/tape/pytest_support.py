"""Pytest support for tapes: `@pytest.mark.tracereel_tape("run.tape.ndjson")`."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from tracereel._core import recorder_overrides, replay_guard
from tracereel._core.recorder_overrides import StandIn
from tracereel._core.replay_guard import UNDECLARED, changes_something, is_allowed
from tracereel.errors import NotAllowedError
from tracereel.tape import header
from tracereel.tape.divergence import DivergenceError
from tracereel.tape.entry import bound, entry_point
from tracereel.tape.export import redacted, relisted
from tracereel.tape.format import TapeError, load, parse
from tracereel.tape.null_recorder import QuietRecorder
from tracereel.tape.recorded_tools import check_tools
from tracereel.tape.recording import Recordings
from tracereel.tape.replaying import STOPPED, Replaying, hosts_of, replay

if TYPE_CHECKING:
    from tracereel._core.context import Execution


def run_of(item: Any, *, update: bool) -> "Replaying | Updating":
    """Return the `tape_run` fixture of a marked test."""
    marker = item.get_closest_marker("tracereel_tape")
    if marker is None or len(marker.args) != 1:
        raise pytest.UsageError(
            '@pytest.mark.tracereel_tape takes the path of a tape, as in ("run.tape.ndjson")'
        )
    path = Path(item.path).parent / marker.args[0]
    if update:
        if os.environ.get("CI"):
            raise pytest.UsageError("--tracereel-update makes real calls: it does not run in CI")
        given = marker.kwargs
        return Updating(
            *(path, Path(item.path)),
            allow=given.get("allow", ()),
            allow_network=given.get("allow_network", ()),
        )
    return replay(path, **marker.kwargs)


@contextmanager
def around(run: "Replaying | Updating") -> Iterator[None]:
    """Run a test against its tape; a divergence fails the test with the report."""
    try:
        with replay_guard.installed(allow=run.allowed, hosts=run.hosts), run:
            yield
    except STOPPED as error:
        text = str(run.report)
        if str(error) not in text and not (
            isinstance(error, DivergenceError) and run.report.divergences
        ):
            text = f"{error}\n\n{text}"
        # The report is complete: leave out the chained exceptions.
        raise pytest.fail.Exception(text, pytrace=False) from None


class Updating:
    """Records a run again with real calls and replaces its tape.

    Tools with side effects run only if the marker allows them by name.
    """

    def __init__(
        self,
        path: Path,
        test: Path,
        *,
        allow: Iterable[str] = (),
        allow_network: bool | Iterable[str] = (),
    ) -> None:
        self._path = path
        self._test = test
        self.allowed = frozenset(allow)
        self.hosts = hosts_of(allow_network)
        self.original = load(path)
        self._parts: list[dict[str, Any]] = []
        self._stand_in: StandIn | None = None
        self.report = _NoReport()

    def __enter__(self) -> Self:
        self._check_tools(loaded=False)
        recorder = QuietRecorder.made(content=True)
        settings = header.TapeSettings(recorder, "all", 1.0, None, parts=self._parts)
        recorder.tape = _GuardedRecordings(settings, self._path.name, self.allowed)
        # Also replaces the recorder of a program that configures itself when it is imported.
        self._stand_in = StandIn(recorder, lambda: True)
        recorder_overrides.begin(self._stand_in)
        return self

    def __exit__(self, kind: object, error: BaseException | None, tb: object) -> None:
        if self._stand_in is not None:
            recorder_overrides.end(self._stand_in)
        if error is not None:
            return
        new = redacted(parse(self._parts, where="this test: no traced function was called in it"))
        new.save(self._path)
        source = self._test.read_text(encoding="utf-8")
        if (relisting := relisted(source, self.original, new)) != source:
            self._test.write_text(relisting, encoding="utf-8")

    def call(self, function: Callable[..., Any] | None = None) -> Any:
        """Call the entry point with the arguments of the old tape."""
        target = function if function is not None else entry_point(self.original)
        self._check_tools(loaded=True)
        return Replaying.run_with(target, bound(target, Replaying.entry_arguments(self.original)))

    def _check_tools(self, *, loaded: bool) -> None:
        """Refuse tools that the guard no longer knows, because their decorators are gone."""
        tools = [call for call in self.original.calls.values() if call.kind == "tool"]
        risky = {call.name for call in tools if changes_something("tool", call.effect)}
        harmless = {call.name for call in tools} - risky
        try:
            check_tools(self.original, loaded=loaded, allowed=self.allowed | harmless)
        except TapeError as error:
            raise TapeError(f"{error}, or allow it by name in the marker (allow=[…])") from None


class _GuardedRecordings(Recordings):
    """Records live calls, and rejects side effects that are not allowed."""

    def __init__(self, settings: header.TapeSettings, tape: str, allow: frozenset[str]) -> None:
        super().__init__(settings)
        self._tape = tape
        self._allow = allow

    def begin(self, execution: "Execution | None", **about: Any) -> Any:
        self._check(about["around"], about["kind"], about["name"], about["effect"])
        return super().begin(execution, **about)

    def begins_block(self, execution: "Execution", effect: str) -> None:
        self._check(execution.parent, execution.kind, execution.name, effect)

    def _check(self, around: "Execution | None", kind: str, name: str, effect: str) -> None:
        if changes_something(kind, effect) and not is_allowed(self._allow, name, around):
            raise NotAllowedError(
                f"{name} would run for real (it declares {effect or UNDECLARED}); allow it by name:"
                f" @pytest.mark.tracereel_tape({self._tape!r}, allow=[{name!r}])"
            )


class _NoReport:
    """Report of a run that is being recorded; there is nothing to compare."""

    identical = True
    divergences: tuple[()] = ()

    def __str__(self) -> str:
        return "The tape was not recorded anew."
