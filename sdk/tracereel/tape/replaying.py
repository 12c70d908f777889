"""`replay` and `fork`: a block in which the program's code runs against a tape."""

import asyncio
import inspect
import re
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from tracereel import _recorder, _stand_ins
from tracereel._privacy import Privacy
from tracereel._recorder import Recorder
from tracereel._stand_ins import StandIn
from tracereel.redaction import Redaction, Rule
from tracereel.tape import codec, guards, header
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
from tracereel.tape.loops import Clock
from tracereel.tape.members import Members
from tracereel.tape.outcome import outcome, told
from tracereel.tape.overrides import Override
from tracereel.tape.patches import Patches
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
        self.original = tape
        self._options = options
        self._freeze = freeze
        self._skip_sleeps = skip_sleeps
        self._allow_network = (
            allow_network if isinstance(allow_network, bool) else list(allow_network)
        )
        self._branch = branch
        self._patches = Patches()
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
        if tape.state == "no":
            raise TapeError(
                f"the run {tape.trace_id} cannot be replayed: {'; '.join(tape.reasons)}"
            )
        clock = Clock()
        members = Members(clock, skip_sleeps=self._skip_sleeps and not self._branch)
        player = self._player = Player(
            tape, self._options, _privacy(tape), clock, members.has_threads
        )
        player.report.notes += [f"Note: {reason}." for reason in tape.reasons]
        self._network = guards.Network(
            self._allow_network, members=members, noted=self._network_used
        )
        self._install(player, members)
        members.enter()
        self._members = members
        self._network.__enter__()
        if self._freeze:
            started = datetime.fromisoformat(str(tape.header["started"]))
            guards.freeze(self._patches, clock, started, tape.tape_id, members)
        return self

    def _install(self, player: Player, members: Members) -> None:
        active = _recorder.active() if self._branch else None
        if active is not None:
            self._borrowed = active, active.tape
            active.tape = Apart(self._branched(player, active), active.tape, members.is_here)
            return
        quiet = QuietRecorder.made()
        quiet.tape = self._branched(player, quiet) if self._branch else player
        self._stand_in = StandIn(quiet, members.is_here)
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
        self._patches.undo()
        if self._network is not None:
            self._network.__exit__(kind, error, tb)
        if self._members is not None:
            self._members.leave()
        if self._borrowed is not None:
            recorder, before = self._borrowed
            recorder.tape = before
        if self._stand_in is not None:
            _stand_ins.end(self._stand_in)
        if not isinstance(error, _STOPPED):
            player.finish()
        else:
            player.over = True
            player.loops.restore()
        if isinstance(error, TapeError):
            return  # nothing has run
        self._tell()
        first = player.report.first
        strict = self._options.mode == "strict" and self._options.fork_at is None
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
        fork_at = self._options.fork_at
        branch = self.tape.trace_id if self._borrowed is not None and self._parts else None
        if fork_at is not None and branch is None:
            return  # nobody recorded the branch: there is nothing to point to
        event = outcome(
            self.original,
            self.report,
            mode=self._options.mode if fork_at is None else "fork",
            now_ns=time.time_ns(),
            branch=branch,
            at=fork_at,
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
        target = function if function is not None else entry_point(self.original)
        recorded = self.original.header.get("code")
        inner = inspect.unwrap(target)
        if recorded is not None and header.source_hash(inner) not in (None, recorded):
            name = getattr(inner, "__qualname__", str(inner))
            self.report.notes.append(f"Note: the code of {name} is not that of the recording.")
        return self.run_with(target, fitting(target, self.entry_arguments(self.original)))

    @staticmethod
    def run_with(target: Any, arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
        """Call a function of any kind and run what it gives to its end."""
        args, kwargs = arguments
        result = target(*args, **kwargs)
        if inspect.iscoroutine(result):
            return asyncio.run(result)
        if inspect.isasyncgen(result):
            return asyncio.run(_all_of(result))
        return list(result) if inspect.isgenerator(result) else result

    @staticmethod
    def entry_arguments(tape: Tape) -> dict[str, Any]:
        """What the run of a tape began with."""
        root = tape.calls.get(tape.header.get("n", 1))
        if root is None or root.arguments is None:
            return {}
        found: dict[str, Any] = codec.decode(tape.data(root.arguments))
        return found


async def _all_of(stream: Any) -> list[Any]:
    return [item async for item in stream]


def _privacy(tape: Tape) -> Privacy | None:
    """The rules that the recording was made with, so that redacted arguments are found again."""
    said = tape.header.get("redaction") or {}
    rules = [Rule(name, pattern) for name, pattern in said.get("rules", ())]
    if not said.get("built_in") and not rules:
        return None
    return Privacy(
        Redaction(rules=rules, built_in=bool(said.get("built_in"))), capture_content=True
    )


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
    lines = client.tape(str(source)).splitlines()
    return tape_format.parse(lines, where=f"trace {source}"), client


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
        allow_network: hosts that may be reached, or all.
        overrides: results or decisions that are to be others.
        compare_output: whether the result of the run must be that of the tape.
        keep: whether the collector that the tape is from keeps what comes of it.

    Raises:
        TapeError: there is no such tape, or it cannot be replayed.
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
    network = allow_network if mode != "live-after" else True
    tape, client = open_tape(trace)
    run = Replaying(tape, options, freeze=freeze, allow_network=network)
    return run.keep_in(client) if client is not None and keep else run


def fork(
    trace: "str | Path | Tape",
    *,
    at: int,
    overrides: Iterable[Override] = (),
    allow: Iterable[str] = (),
    allow_network: bool | Iterable[str] = True,
    keep: bool = True,
) -> Replaying:
    """Go on live from a step of a recorded run: the calls before it are served, the others are made.

    What comes of it is recorded as a run of its own, which names the run it comes from.

    Args:
        at: number of the first call that is made for real, from 1 on; 1 serves none.
        overrides: what is to be different.
        allow: names of tools that may run for real although they change something.
        keep: whether the collector that the tape is from notes that there is a branch.

    Raises:
        TapeError: there is no such tape.
    """
    options = Options(
        mode="live-after",
        allow=frozenset(allow),
        fork_at=at,
        overrides=tuple(overrides),
        compare_output=False,
    )
    tape, client = open_tape(trace)
    run = Replaying(tape, options, allow_network=allow_network, branch=True)
    return run.keep_in(client) if client is not None and keep else run
