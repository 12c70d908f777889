"""`replay` and `fork`: context managers that run the program's code against a tape."""

import asyncio
import inspect
import re
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import aclosing, closing
from datetime import datetime
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tracereel._core import framework_tools, recorder_overrides, replay_guard
from tracereel._core import recorder as _recorder
from tracereel._core.recorder import Recorder
from tracereel._core.recorder_overrides import StandIn
from tracereel.client import Client, ClientError, TraceNotFoundError
from tracereel.errors import NotAllowedError, ReplayStoppedError
from tracereel.tape import codec, elsewhere, guards, header, rules
from tracereel.tape import format as tape_format
from tracereel.tape.branch import Branch, ScopedSession
from tracereel.tape.divergence import Divergence, DivergenceError, error_within
from tracereel.tape.entry import bound, entry_point
from tracereel.tape.format import Tape, TapeError
from tracereel.tape.freezing import Freeze
from tracereel.tape.loops import Clock
from tracereel.tape.null_recorder import QuietRecorder
from tracereel.tape.options import MODES, Mode, Options
from tracereel.tape.outcome import outcome, override_record
from tracereel.tape.overrides import Override, check_choices
from tracereel.tape.player import Player
from tracereel.tape.recorded_tools import check_tools
from tracereel.tape.recording import Recordings
from tracereel.tape.report import Report
from tracereel.tape.thread_ownership import Members

STOPPED: Final = (ReplayStoppedError, TapeError)
"""Errors that interrupt a run; calls after them are not reported as missing."""
_TRACE_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class Replaying:
    """Re-execution as a context manager, with its `report`.

    In strict mode the end of the block raises the first divergence, even if the program caught it.
    """

    def __init__(self, tape: Tape, options: Options) -> None:
        check_choices(tape, options.overrides, rules.privacy_of(tape))
        self.original = tape
        self._options = options
        self._branch = options.branch
        self._frozen: Freeze | None = None
        self._player: Player | None = None
        self._noted = 0
        """Number of records of other threads and processes that the report has."""
        self._unbegun = Report(tape.trace_id, branch=options.branch)
        self._parts: list[dict[str, Any]] = []
        self._members: Members | None = None
        self._stand_in: StandIn | None = None
        self._borrowed: tuple[Recorder, Any] | None = None
        self._outcome_client: Client | None = None
        self._network: guards.Network | None = None
        self._is_here: Callable[[], bool] | None = None

    @property
    def report(self) -> Report:
        """Report of the re-execution so far."""
        if self._player is None:
            return self._unbegun
        self._noted = elsewhere.add_to(self._player.report, self._noted)
        return self._player.report

    @property
    def allowed(self) -> frozenset[str]:
        """Names of tools that may run."""
        return self._options.allow

    @property
    def hosts(self) -> frozenset[str] | None:
        """Hosts that may be reached; `None` for all."""
        return hosts_of(self._options.allow_network)

    @property
    def tape(self) -> Tape:
        """Recorded tape of a fork.

        Raises:
            TapeError: nothing was recorded.
        """
        return tape_format.parse(self._parts, where="this fork")

    def __enter__(self) -> Self:
        tape = self.original
        try:
            check(tape)
            check_tools(tape, loaded=False)
            if silent := framework_tools.unserved():
                raise TapeError(silent)
        except TapeError as error:
            self._unbegun.unplayable = str(error)
            raise
        clock = Clock()
        members = Members(clock, skip_sleeps=not self._branch)
        # Only the replayed code keeps it alive, so it is gone with its last task and thread.
        known = weakref.ref(members)
        player = self._player = Player(
            tape,
            self._options,
            rules.privacy_of(tape),
            clock,
            lambda: (found := known()) is not None and found.has_threads(),
        )
        player.report.notes += [f"Note: {reason}." for reason in tape.reasons]
        is_here = self._membership(members)
        self._network = guards.Network(
            self._options.allow_network,
            # A run that has left its tape makes real calls.
            is_here=lambda: (self._branch or not player.live) and is_here(),
            noted=self._network_used,
        )
        self._install(player, is_here)
        framework_tools.watch_imports(is_here)
        self._is_here = is_here
        members.enter()
        self._members = members
        self._network.begin()
        if self._options.freeze:
            started = datetime.fromisoformat(str(tape.header["started"]))
            self._frozen = Freeze(clock, started, tape.tape_id, members)
            self._frozen.enter()
        return self

    def _membership(self, members: Members) -> Callable[[], bool]:
        """Return a predicate: whether the calling code belongs to the re-execution.

        It holds only a weak reference, and ends all restrictions when `members` is gone.
        """
        found = weakref.ref(members, lambda _gone: self._lift_restrictions())

        def is_here() -> bool:
            known = found()
            if known is None or known.forgotten:
                self._lift_restrictions()
                return False
            return known.is_here()

        return is_here

    def _lift_restrictions(self) -> None:
        """End all restrictions."""
        if self._network is not None:
            self._network.end()
        if self._stand_in is not None:
            recorder_overrides.end(self._stand_in)
        if self._is_here is not None:
            framework_tools.stop_watching(self._is_here)

    def _install(self, player: Player, is_here: Callable[[], bool]) -> None:
        active = _recorder.active() if self._branch else None
        if active is not None:
            self._borrowed = active, active.tape
            scoped: Any = ScopedSession(self._branched(player, active), active.tape, is_here)
            active.tape = scoped
            return
        quiet = QuietRecorder.made(content=self._branch)
        quiet.tape = self._branched(player, quiet) if self._branch else player
        self._stand_in = StandIn(quiet, is_here)
        recorder_overrides.begin(self._stand_in)

    def _branched(self, player: Player, recorder: Recorder) -> Any:
        origin: dict[str, Any] = {
            "trace_id": self.original.trace_id,
            "tape_id": self.original.tape_id,
            "at": self._options.fork_at,
            "overrides": list(self._overrides()),
        }
        settings = header.TapeSettings(
            recorder, "all", 1.0, None, forked_from=origin, parts=self._parts
        )
        return Branch(player, Recordings(settings))

    def _network_used(self, host: str, where: str | None) -> None:
        if self._player is not None:
            self._player.settle()
        allowed = f"allow_network=[{host!r}], --allow-network {host}"
        detail = f"put it behind a traced tool, or let it through ({allowed})"
        divergence = Divergence("network", host, host, 0, location=where, detail=detail)
        self.report.divergences.append(divergence)
        if self._player is not None and self._player.is_in_child:
            elsewhere.note(divergence)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        player = self._player
        if player is None:
            return
        if self._frozen is not None:
            self._frozen.leave()
        members, self._members = self._members, None
        if members is None or not members.leave(hold_back=not player.live and not self._branch):
            self._lift_restrictions()
        if self._borrowed is not None:
            recorder, before = self._borrowed
            recorder.tape = before
        stop = error_within(error, STOPPED)
        if stop is None:
            player.finish()
        else:
            player.stop()
            if isinstance(stop, NotAllowedError):
                player.settle()
                player.report.refused = str(stop)
        player.reel.give_up()
        if isinstance(error, TapeError):
            return  # nothing has run
        player.note_unused()
        report = self.report
        if player.report.divergences:
            player.report.notes += header.other_than(self.original.header)
            player.report.notes += rules.notes(self.original)
        self._store_outcome()
        first = player.report.first
        strict = self._options.mode == "strict"
        raised = stop.divergence if isinstance(stop, DivergenceError) else None
        if strict and first is not None and raised is not first:
            raise DivergenceError(first) from error
        if strict and report.refused and error is None:
            raise NotAllowedError(report.refused)
        if stop is not None and stop is not error:
            raise stop from error

    def keep_in(self, client: "Client") -> Self:
        """Store the outcome in a collector, with the original run."""
        self._outcome_client = client
        return self

    def _overrides(self) -> tuple[dict[str, Any], ...]:
        privacy = rules.outgoing()
        return tuple(override_record(each, privacy) for each in self._options.overrides)

    def _store_outcome(self) -> None:
        if self._outcome_client is None:
            return
        branch = self.tape.trace_id if self._borrowed is not None and self._parts else None
        if self._branch and branch is None:
            return  # the branch was not recorded: there is nothing to refer to
        event = outcome(
            self.original,
            self.report,
            mode="fork" if self._branch else self._options.mode,
            now_ns=time.time_ns(),
            privacy=rules.outgoing(),
            branch=branch,
            at=self._options.fork_at or self.report.live_from,
            overrides=self._overrides(),
        )

        try:
            with replay_guard.exempt():
                self._outcome_client.post_json("/v1/events", event)
        except ClientError as error:
            self.report.notes.append(f"Note: the outcome could not be stored: {error}.")

    def call(self, function: Any = None) -> Any:
        """Call the entry point with the recorded arguments; run coroutines and generators to their end.

        Args:
            function: function to call; default: the one that the tape names.

        Raises:
            TapeError: the function cannot be loaded.
        """
        try:
            target = function if function is not None else entry_point(self.original)
            if self._player is not None:
                # The program may have configured redaction rules while it was imported.
                self._player.privacy = rules.privacy_of(self.original)
            check_tools(self.original, loaded=True)
            if silent := framework_tools.unserved():
                raise TapeError(silent)
            arguments = bound(target, self.entry_arguments(self.original))
        except TapeError as error:
            # Add it to the report too, in case the program or its test catches it.
            self.report.notes.append(f"Note: {error}.")
            self.report.unplayable = str(error)
            raise
        recorded = self.original.header.get("code")
        inner = inspect.unwrap(target)
        name = getattr(inner, "__qualname__", str(inner))
        # A substitute function only leads to the recorded code, so its source is not compared.
        stands_for_it = inner is not target or function is None
        if (
            stands_for_it
            and recorded is not None
            and header.source_hash(inner) not in (None, recorded)
        ):
            self.report.notes.append(f"Note: the code of {name} is not that of the recording.")
        return self.run_with(target, arguments, items=self.original.items_read())

    @staticmethod
    def run_with(
        target: Any,
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
        *,
        items: int | None = None,
    ) -> Any:
        """Call a function and run its result to the end, or for `items` items."""
        args, kwargs = arguments
        result = target(*args, **kwargs)
        if inspect.iscoroutine(result):
            return asyncio.run(result)
        if inspect.isasyncgen(result):
            return asyncio.run(_all_of(result, items))
        if not inspect.isgenerator(result):
            return result
        with closing(result):
            return list(islice(result, items))

    @staticmethod
    def entry_arguments(tape: Tape) -> dict[str, Any]:
        """Return the arguments with which the recorded run began."""
        root = tape.calls.get(tape.header.get("n", 1))
        if root is None or root.arguments is None:
            return {}
        try:
            found = codec.decode(tape.data(root.arguments))
        except ValueError as error:
            raise TapeError(f"the arguments of the run cannot be read: {error}") from error
        if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
            raise TapeError("the arguments of the run are no arguments by name")
        # What was not passed then is not passed now: the code gives its own defaults.
        return {name: value for name, value in found.items() if name not in root.defaults}


async def _all_of(stream: Any, items: int | None) -> list[Any]:
    found: list[Any] = []
    async with aclosing(stream):
        while items is None or len(found) < items:
            try:
                found.append(await anext(stream))
            except StopAsyncIteration:
                break
    return found


def check(tape: Tape) -> None:
    """Check that a tape can be replayed."""
    if tape.state == "no":
        why = "; ".join(tape.reasons)
        raise TapeError(f"the run {tape.trace_id} cannot be replayed: {why}")


def open_tape(source: "str | Path | Tape") -> "tuple[Tape, Client | None]":
    """Open a tape by `Tape`, file path, or trace id in the collector.

    Return the tape, and the client if it came from the collector.
    """
    if isinstance(source, Tape):
        return source, None
    path = Path(source)
    if path.suffix or path.exists() or not _TRACE_ID.fullmatch(str(source)):
        return tape_format.load(path), None

    client = Client()
    return fetched(client, str(source)), client


def fetched(client: "Client", trace_id: str) -> Tape:
    """Fetch the tape of a trace from the collector."""
    try:
        lines = client.tape(trace_id).splitlines()
    except TraceNotFoundError:
        try:
            reasons = client.replayable(trace_id).reasons
        except ClientError:
            reasons = ()
        if not reasons:
            raise
        raise TapeError(f"the run {trace_id} has no tape: {'; '.join(reasons)}") from None
    return tape_format.parse(lines, where=f"trace {trace_id}")


def replay(
    trace: "str | Path | Tape",
    *,
    mode: Mode = "strict",
    freeze: bool = False,
    allow: Iterable[str] = (),
    allow_network: bool | Iterable[str] = False,
    overrides: Iterable[Override] = (),
    compare_output: bool = True,
    keep: bool = False,
    stall_seconds: float = 10.0,
) -> Replaying:
    """Re-execute a recorded run: calls to models and tools are served from its tape.

    Example:
        with tracereel.replay("run.tape.ndjson") as run:
            answer = agent("the same question")
        print(run.report)

    Args:
        trace: id of a trace in the collector, path of a tape file, or a tape.
        mode: `strict` stops at the first divergence; `report` continues and collects all;
            `live-after` makes real calls from the first divergence on.
        freeze: start time at the recorded start, and repeat random numbers and UUIDs.
        allow: names of tools that may run although they have side effects.
        allow_network: hosts that may be reached, or `True` for all; all once a run continues live.
        overrides: results or decisions to replace.
        compare_output: whether the result of the run must match the tape.
        keep: whether to store the outcome in the collector that the tape came from.
        stall_seconds: seconds without progress after which the run counts as stalled.

    Raises:
        TapeError: there is no such tape, it cannot be replayed, or a decision had no such
            candidate.
        ValueError: the mode is unknown.
    """
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; expected one of {', '.join(MODES)}")
    options = Options(
        mode=mode,
        allow=frozenset(allow),
        overrides=tuple(overrides),
        compare_output=compare_output and not tuple(overrides),
        stall_seconds=stall_seconds,
        freeze=freeze,
        allow_network=_reusable(allow_network),
    )
    return _replaying(trace, options, keep=keep)


def fork(
    trace: "str | Path | Tape",
    *,
    at: int | None = None,
    freeze: bool = False,
    overrides: Iterable[Override] = (),
    allow: Iterable[str] = (),
    allow_network: bool | Iterable[str] = True,
    keep: bool = True,
) -> Replaying:
    """Continue a recorded run live from a chosen call; earlier calls are served.

    The fork is recorded as a new run that refers to the original.

    Args:
        at: number of the first live call, from 1. Default: calls are served as long as they are on
            the tape.
        freeze: start time at the recorded start, and repeat random numbers and UUIDs.
        overrides: changes to the run.
        allow: names of tools that may run although they have side effects.
        allow_network: hosts that may be reached, or `True` for all.
        keep: whether to register the branch in the collector that the tape came from.

    Raises:
        TapeError: there is no such tape, or a decision had no such candidate.
    """
    options = Options(
        mode="live-after",
        allow=frozenset(allow),
        fork_at=at,
        branch=True,
        overrides=tuple(overrides),
        compare_output=False,
        freeze=freeze,
        allow_network=_reusable(allow_network),
    )
    return _replaying(trace, options, keep=keep)


def hosts_of(allowed: bool | Iterable[str]) -> frozenset[str] | None:
    """Return the hosts that an option allows; `None` for all."""
    if isinstance(allowed, bool):
        return None if allowed else frozenset()
    return frozenset(allowed)


def _reusable(hosts: bool | Iterable[str]) -> bool | Iterable[str]:
    return hosts if isinstance(hosts, bool) else tuple(hosts)


def _replaying(trace: "str | Path | Tape", options: Options, *, keep: bool) -> Replaying:
    tape, client = open_tape(trace)
    run = Replaying(tape, options)
    return run.keep_in(client) if client is not None and keep else run
