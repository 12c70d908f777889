"""`replay` and `fork`: a block in which the program's code runs against a tape."""

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
from typing import TYPE_CHECKING, Any, Final, Self

from tracereel import _recorder, _stand_ins
from tracereel._privacy import Privacy
from tracereel._recorder import Recorder
from tracereel._stand_ins import StandIn
from tracereel.redaction import Redaction, Rule
from tracereel.tape import choosing, codec, guards, header
from tracereel.tape import format as tape_format
from tracereel.tape.divergence import (
    Divergence,
    DivergenceError,
    NotAllowedError,
    Report,
    TapeEndedError,
)
from tracereel.tape.entry import entry_point, fitting
from tracereel.tape.format import Tape, TapeError
from tracereel.tape.freezing import Freeze
from tracereel.tape.loops import Clock
from tracereel.tape.members import Members
from tracereel.tape.outcome import outcome, told
from tracereel.tape.overrides import Override
from tracereel.tape.player import MODES, Mode, Options, Player
from tracereel.tape.quiet import Apart, QuietRecorder
from tracereel.tape.recording import Recordings

if TYPE_CHECKING:
    from tracereel.client import Client

_STOPPED: Final = (
    DivergenceError,
    guards.NetworkBlockedError,
    NotAllowedError,
    TapeEndedError,
    TapeError,
)
"""After these the rest of the tape is not missing: nobody came that far."""
_TRACE_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class Replaying:
    """A re-execution: `with` begins and ends it; `report` says what it found.

    At the end of the block, in strict mode, the first divergence is raised, also if the program has
    swallowed it.
    """

    def __init__(
        self,
        tape: Tape,
        options: Options,
        *,
        freeze: bool = False,
        allow_network: bool | Iterable[str] = False,
        skip_sleeps: bool = True,
        branch: bool = False,
    ) -> None:
        choosing.check(tape, options.overrides, _privacy(tape))
        self.original = tape
        self._options = options
        self._freeze = freeze
        self._skip_sleeps = skip_sleeps
        self._allow_network = (
            allow_network if isinstance(allow_network, bool) else list(allow_network)
        )
        self._branch = branch
        self._frozen: Freeze | None = None
        self._player: Player | None = None
        self._parts: list[dict[str, Any]] = []
        self._members: Members | None = None
        self._stand_in: StandIn | None = None
        self._borrowed: tuple[Recorder, Any] | None = None
        self._kept_in: Client | None = None
        self._network: guards.Network | None = None

    @property
    def report(self) -> Report:
        """What the re-execution has found so far."""
        if self._player is None:
            return Report(self.original.trace_id)
        return self._player.report

    @property
    def tape(self) -> Tape:
        """Of a fork: what was recorded of it.

        Raises:
            TapeError: nothing was.
        """
        return tape_format.parse(self._parts, where="this fork")

    def __enter__(self) -> Self:
        tape = self.original
        check(tape)
        clock = Clock()
        members = Members(clock, skip_sleeps=self._skip_sleeps and not self._branch)
        # Held by nobody but its code: it is gone with the last task and thread of it.
        known = weakref.ref(members)
        player = self._player = Player(
            tape,
            self._options,
            _privacy(tape),
            clock,
            lambda: (found := known()) is not None and found.has_threads(),
        )
        player.report.notes += [f"Note: {reason}." for reason in tape.reasons]
        is_here = self._asker(members)
        self._network = guards.Network(
            self._allow_network,
            # A run that has left its tape goes on by itself: its calls are real ones.
            is_here=lambda: (self._branch or not player.live) and is_here(),
            noted=self._network_used,
        )
        self._install(player, is_here)
        members.enter()
        self._members = members
        self._network.__enter__()
        if self._freeze:
            started = datetime.fromisoformat(str(tape.header["started"]))
            self._frozen = Freeze(clock, started, tape.tape_id, members)
            self._frozen.enter()
        return self

    def _asker(self, members: Members) -> Callable[[], bool]:
        """Whether code belongs to it; does not keep what was left behind alive, and ends with that."""
        found = weakref.ref(members, lambda _gone: self._let_go())

        def is_here() -> bool:
            known = found()
            if known is None or known.forgotten:
                self._let_go()
                return False
            return known.is_here()

        return is_here

    def _let_go(self) -> None:
        """Nobody is held back any more."""
        if self._network is not None:
            self._network.end()
        if self._stand_in is not None:
            _stand_ins.end(self._stand_in)

    def _install(self, player: Player, is_here: Callable[[], bool]) -> None:
        active = _recorder.active() if self._branch else None
        if active is not None:
            self._borrowed = active, active.tape
            active.tape = Apart(self._branched(player, active), active.tape, is_here)
            return
        quiet = QuietRecorder.made(content=self._branch)
        quiet.tape = self._branched(player, quiet) if self._branch else player
        self._stand_in = StandIn(quiet, is_here)
        _stand_ins.begin(self._stand_in)

    def _branched(self, player: Player, recorder: Recorder) -> Any:
        from tracereel.tape.branch import Branch

        origin: dict[str, Any] = {
            "trace_id": self.original.trace_id,
            "tape_id": self.original.tape_id,
            "at": self._options.fork_at,
            "overrides": list(self._overrides()),
        }
        settings = header.Settings(
            recorder, "all", 1.0, None, forked_from=origin, keep_parts=self._keep
        )
        return Branch(player, Recordings(settings))

    def _keep(self, tape_id: str, part: int, records: list[dict[str, Any]]) -> None:
        self._parts.append({"tape_id": tape_id, "part": part, "records": list(records)})

    def _network_used(self, host: str, where: str | None) -> None:
        if self._player is not None:
            self._player.settle()
        allowed = f"allow_network=[{host!r}], --allow-network {host}"
        detail = f"put it behind a traced tool, or let it through ({allowed})"
        divergence = Divergence("network", host, host, 0, location=where, detail=detail)
        self.report.divergences.append(divergence)

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
            self._let_go()
        if self._borrowed is not None:
            recorder, before = self._borrowed
            recorder.tape = before
        if not isinstance(error, _STOPPED):
            player.finish()
        else:
            player.stop()
            if isinstance(error, NotAllowedError):
                player.settle()
                player.report.refused = str(error)
        player.reel.give_up()
        if isinstance(error, TapeError):
            return  # nothing has run
        player.note_unused()
        if player.report.divergences:
            player.report.notes += header.other_than(self.original.header)
        self._tell()
        first = player.report.first
        strict = self._options.mode == "strict"
        raised = error.divergence if isinstance(error, DivergenceError) else None
        if strict and first is not None and raised is not first:
            raise DivergenceError(first) from error

    def keep_in(self, client: "Client") -> Self:
        """Have a collector keep what comes of it, with the run that it repeats."""
        self._kept_in = client
        return self

    def _overrides(self) -> tuple[dict[str, Any], ...]:
        privacy = _privacy(self.original)
        return tuple(told(each, privacy) for each in self._options.overrides)

    def _tell(self) -> None:
        if self._kept_in is None:
            return
        branch = self.tape.trace_id if self._borrowed is not None and self._parts else None
        if self._branch and branch is None:
            return  # nobody recorded the branch: there is nothing to point to
        event = outcome(
            self.original,
            self.report,
            mode="fork" if self._branch else self._options.mode,
            now_ns=time.time_ns(),
            branch=branch,
            at=self._options.fork_at or self.report.live_from,
            overrides=self._overrides(),
        )
        from tracereel.client import ClientError

        try:
            self._kept_in.post_json("/v1/events", event)
        except ClientError as error:
            self.report.notes.append(f"Note: what came of it could not be kept: {error}.")

    def call(self, function: Any = None) -> Any:
        """Call the entry point with the arguments of the tape; coroutines and generators run to their end.

        Args:
            function: what to call, if not the function that the tape names.

        Raises:
            TapeError: the tape names none that could be loaded.
        """
        try:
            target = function if function is not None else entry_point(self.original)
            arguments = fitting(target, self.entry_arguments(self.original))
        except TapeError as error:
            # The report says so too, if the program or its test swallows it.
            self.report.notes.append(f"Note: {error}.")
            self.report.refused = str(error)
            raise
        recorded = self.original.header.get("code")
        inner = inspect.unwrap(target)
        name = getattr(inner, "__qualname__", str(inner))
        # A plain function that is called instead only leads to the code that was recorded.
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
        """Call a function of any kind and run what it gives to its end, or read so many items of it."""
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
        """What the run of a tape began with."""
        root = tape.calls.get(tape.header.get("n", 1))
        if root is None or root.arguments is None:
            return {}
        found: dict[str, Any] = codec.decode(tape.data(root.arguments))
        return found


async def _all_of(stream: Any, items: int | None) -> list[Any]:
    found: list[Any] = []
    async with aclosing(stream):
        while items is None or len(found) < items:
            try:
                found.append(await anext(stream))
            except StopAsyncIteration:
                break
    return found


def _privacy(tape: Tape) -> Privacy | None:
    """The rules that the recording was made with, so that redacted arguments are found again."""
    said = tape.header.get("redaction") or {}
    rules = [Rule(name, pattern) for name, pattern in said.get("rules", ())]
    if not said.get("built_in") and not rules:
        return None
    return Privacy(
        Redaction(rules=rules, built_in=bool(said.get("built_in"))), capture_content=True
    )


def check(tape: Tape) -> None:
    """See to it that a tape can be replayed at all.

    Raises:
        TapeError: it cannot.
    """
    if tape.state == "no":
        why = "; ".join(tape.reasons)
        raise TapeError(f"the run {tape.trace_id} cannot be replayed: {why}")


def open_tape(source: "str | Path | Tape") -> "tuple[Tape, Client | None]":
    """A tape: itself, the file of that path, or that of a trace in the collector, which is given too.

    Raises:
        TapeError: there is none.
        ClientError: the collector did not give it.
    """
    if isinstance(source, Tape):
        return source, None
    path = Path(source)
    if path.suffix or path.exists() or not _TRACE_ID.fullmatch(str(source)):
        return tape_format.load(path), None
    from tracereel.client import Client

    client = Client()
    return fetched(client, str(source)), client


def fetched(client: "Client", trace_id: str) -> Tape:
    """The tape of a trace in the collector.

    Raises:
        TapeError: the run was not recorded.
        ClientError: there is no such run, or the collector did not give the tape.
    """
    from tracereel.client import ClientError, TraceNotFoundError

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
    keep: bool = True,
    stall_seconds: float = 10.0,
) -> Replaying:
    """Re-execute a recorded run: calls to models and tools are served from its tape, not made.

    Example:
        with tracereel.replay("run.tape.ndjson") as run:
            answer = agent("the same question")
        print(run.report)

    Args:
        trace: the id of a trace in the collector, the path of a tape, or a tape.
        mode: `strict` stops at the first divergence; `report` goes on and collects all; `live-after`
            makes calls for real from the first divergence on.
        freeze: let time begin when the recorded run did, and random numbers and UUIDs repeat.
        allow: names of tools that may run for real although they change something.
        allow_network: hosts that may be reached, or all; all once a run goes on live.
        overrides: results or decisions that are to be others.
        compare_output: whether the result of the run must be that of the tape.
        keep: whether the collector that the tape is from keeps what comes of it.

    Raises:
        TapeError: there is no such tape, it cannot be replayed, or a decision had no such candidate.
        ValueError: the mode is none of these.
    """
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; expected one of {', '.join(MODES)}")
    options = Options(
        mode=mode,
        allow=frozenset(allow),
        overrides=tuple(overrides),
        compare_output=compare_output and not tuple(overrides),
        stall_seconds=stall_seconds,
    )
    tape, client = open_tape(trace)
    run = Replaying(tape, options, freeze=freeze, allow_network=allow_network)
    return run.keep_in(client) if client is not None and keep else run


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
    """Go on live from a step of a recorded run: the calls before it are served, the others are made.

    What comes of it is recorded as a run of its own, which names the run it comes from.

    Args:
        at: number of the first call that is made for real, from 1 on; 1 serves none. Without it, calls
            are served as long as they are on the tape: up to what comes of the overrides.
        freeze: let time begin when the recorded run did, and random numbers and UUIDs repeat.
        overrides: what is to be different.
        allow: names of tools that may run for real although they change something.
        allow_network: hosts that may be reached, or all.
        keep: whether the collector that the tape is from notes that there is a branch.

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
    )
    tape, client = open_tape(trace)
    run = Replaying(tape, options, freeze=freeze, allow_network=allow_network, branch=True)
    return run.keep_in(client) if client is not None and keep else run
