"""Player session: serves external calls from a tape instead of making them."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tracereel._core.tape_session import OUTSIDE, RUNS, Live, TapeSession
from tracereel.errors import NotAllowedError
from tracereel.tape import codec, elsewhere, endings
from tracereel.tape.call_matching import CallPosition, left_at_default, likeness
from tracereel.tape.decision_matching import MATCHED, NOT_RECORDED, DecisionMatching
from tracereel.tape.differences import differences, shown
from tracereel.tape.divergence import (
    Divergence,
    DivergenceError,
    TapeEndedError,
    location,
    raised_at,
)
from tracereel.tape.divergence_detector import DivergenceDetector
from tracereel.tape.format import BOUNDARIES, Call, Given, Tape
from tracereel.tape.loops import Clock, Loops
from tracereel.tape.options import Options
from tracereel.tape.overrides import Overrides
from tracereel.tape.payloads import hash_of, pack
from tracereel.tape.permissions import Permissions
from tracereel.tape.report import Ending, How, Report
from tracereel.tape.result_order import Reel
from tracereel.tape.serving import Forced, LiveCall, MadeCall, RepeatedCall, RootCall, ServedCall
from tracereel.tape.statuses import COMPARED, ScopeCall

if TYPE_CHECKING:
    from tracereel._core.context import Execution
    from tracereel._redact.event_redaction import Privacy

_EXPECTED: Final = frozenset({"changed", "extra", "missing", "out of order", "decision", "output"})
"""Kinds of divergence that are expected in a branch."""


@dataclass(slots=True)
class Player(TapeSession):
    """Session that serves calls from one tape."""

    tape: Tape
    options: Options
    privacy: "Privacy | None"
    clock: Clock = field(default_factory=Clock)
    has_threads: Callable[[], bool] = field(default=lambda: False)
    """Whether threads other than the first work for the run."""
    report: Report = field(init=False)
    reel: Reel = field(init=False)
    loops: Loops = field(init=False)
    live: bool = field(init=False, default=False)
    """Whether the run has left the tape and continues live."""
    over: bool = field(init=False, default=False)
    _detector: DivergenceDetector = field(init=False)
    _overrides: Overrides = field(init=False)
    _root: CallPosition = field(init=False)
    _lock: Any = field(init=False, default_factory=threading.RLock)
    _made: dict[int, CallPosition] = field(init=False, default_factory=dict)
    _displaced: dict[tuple[str, str, str], Call] = field(init=False, default_factory=dict)
    _begun: int = field(init=False, default=0)
    _decisions: DecisionMatching = field(init=False)
    _first_thread: int = field(init=False, default_factory=threading.get_ident)
    _process: int = field(init=False, default_factory=os.getpid)
    _rooted: bool = field(init=False, default=False)
    _permissions: Permissions = field(init=False)
    _ended_at: str = field(init=False, default="")
    """Path of the first call that could not be served."""

    def __post_init__(self) -> None:
        self.report = Report(
            self.tape.trace_id, mode=self.options.mode, begun=True, branch=self.options.branch
        )
        closed = self.tape.closed
        if closed is not None and closed["how"] != "block":
            self.report.recorded = Ending(closed["how"], self._data_of(closed.get("v")))
        if not self.options.compare_output and not self.options.branch:
            self.report.not_compared.append("the result of the run (compare_output=False)")
        self.reel = Reel(
            self.tape, stall_seconds=self.options.stall_seconds, has_threads=self.has_threads
        )
        self.loops = Loops(self.reel, self.clock, stalled=self.stalled)
        self._detector = DivergenceDetector(self.tape, self.diverged, self._made)
        self._overrides = Overrides(self.options.overrides)
        self._root = CallPosition.root(self.tape)
        self._decisions = DecisionMatching(self.tape)
        self._permissions = Permissions.of_tape(
            self.tape, allowed=self.options.allow, report=self.report
        )

    def begin(self, execution: "Execution | None", **about: Any) -> Any:
        """Begin a call; return an object that serves it or lets it run."""
        begun = self._begin(execution, **about)
        if isinstance(begun, ServedCall) and not self.options.branch:
            self._await_overtaken(begun.call, about)
        return begun

    def _await_overtaken(self, call: Call, about: dict[str, Any]) -> None:
        """Give calls of other threads that are due some time to begin; suspect a changed order."""
        with self._lock:
            missed = self._detector.overtaken(call)
        if not missed or not self.reel.await_begun([each.number for each in missed]):
            return
        with self._lock:
            path = self._place_of(about["around"]).path
            came = f"{path} / {call.name}" if path else call.name
            late = next((each for each in missed if each.number not in self._made), None)
            if late is not None:
                self._detector.overtook(call, late, came, location(about["function"]))

    @property
    def is_in_child(self) -> bool:
        """Whether this is a forked child, whose calls are not on its parent's tape."""
        return os.getpid() != self._process

    def _begin(self, execution: "Execution | None", **about: Any) -> Any:
        if self.is_in_child:
            return elsewhere.begin(about, self.options.allow)
        self.loops.adopt()
        made = MadeCall(execution, **about)
        given = made.arguments
        packed = pack(dict(given.items() if isinstance(given, dict) else given), self.privacy)
        with self._lock:
            parent = self._place_of(made.around)
            path = parent.step(made.kind, made.name)
            if made.kind not in BOUNDARIES or made.form == "block" or parent.inside:
                if parent.inside and made.form != "block":
                    self._permissions.check_call(made, path)
                return self._scope(made, parent, path, packed.data)
            if self.over and not self.live:
                raise NotAllowedError(
                    f"{path} is not called: the replay of {self.tape.trace_id} is over, and this"
                    " task or thread is left of it"
                )
            if self._stopped():
                # The program caught the divergence, or other tasks still run: stop them here.
                raise DivergenceError(self.report.divergences[0])
            self.report.note_unread(f"an argument of {made.name}", packed)
            call = self._matching(made, parent, path, packed.data)
            forced = self._overrides.result_of(made.name, self._begun)
            if forced is not None:
                if call is not None:
                    self._pass_over(call, parent)
                self._note_call(made, path, "forced", call)
                return Forced(forced)
            if self.live:
                return self._run_live(made, path)
            if call is None:
                return self._repeat(made, parent, path)
            self._made[call.number] = parent
            self.reel.begun(call.number)
            self.report.served += 1
            self._note_call(made, path, "served", call)
            self.loops.reach(call.at)
            return ServedCall(self, call, made.execution)

    def _note_call(self, made: MadeCall, path: str, how: How, call: Call | None = None) -> None:
        number = call.number if call is not None else None
        self.report.called(made.kind, made.name, path, how, number)

    def _data_of(self, reference: str | None) -> Any:
        try:
            return self.tape.data(reference) if reference else None
        except ValueError:
            return None

    def _matching(
        self, made: MadeCall, parent: CallPosition, path: str, data: dict[str, Any]
    ) -> Call | None:
        """Return the tape's call that matches this one; leave the tape where it forks."""
        digest = hash_of(data)
        call = parent.exact(made.kind, made.name, digest)
        if call is None and (left := left_at_default(made.arguments)):
            call = parent.by_default(made.kind, made.name, data, left)
        if call is None:
            call = self._displaced.pop((made.kind, made.name, digest), None)
        if call is None and not self.live:
            call = parent.moved(made.kind, made.name, digest)
        lane = int(threading.get_ident() != self._first_thread)
        self._begun += 1
        forked = self._forks_here(made.name)
        if not self.live and not forked:
            if call is None:
                return self._unknown(made, parent, path, data)
            self._detector.called(call, path, lambda: location(made.function), lane)
            self._go_on_live()
        elif not self.live:
            self._leave_tape()
        elif call is not None:
            self._detector.made_later(call)
        return call

    def _forks_here(self, name: str) -> bool:
        """Return whether live execution starts at the current call."""
        if self.options.fork_at is not None:
            return self._begun >= self.options.fork_at
        return self.options.branch and bool(self._overrides.arguments_of(name, self._begun))

    def note_unused(self) -> None:
        """Add notes on overrides and fork points that were not reached."""
        self.report.notes += self._overrides.unused()
        at = self.options.fork_at
        if at is not None and self._begun < at:
            self.report.notes.append(f"Note: the run made {self._begun} calls: there is no {at}.")

    def _pass_over(self, call: Call, parent: CallPosition) -> None:
        """Mark the results of a call as delivered, because an override replaces them."""
        self._made[call.number] = parent
        self.reel.begun(call.number)
        for given in call.results():
            self.reel.done(given)

    def _scope(self, made: MadeCall, parent: CallPosition, path: str, data: dict[str, Any]) -> Live:
        call = exact = None
        if not parent.inside:
            exact = parent.exact(made.kind, made.name, hash_of(data))
            call = exact or parent.nearest(made.kind, made.name)
        if made.execution is not None:
            made.execution.place = parent.within(made.kind, call, path)
        root = parent is self._root and not self._rooted and call is not None
        if root:
            self._rooted = True
            if not self._made:
                self.clock.begin_run()
        status, known = None, call if root else exact
        if known is not None and made.execution is not None and made.kind in COMPARED:
            status = ScopeCall(self, known, path, made.execution)
        return RootCall(self, status) if root else status or RUNS

    def differs(self, divergence: Divergence) -> None:
        """Report that an agent or pipeline has ended otherwise."""
        if not self.live and not self._stopped() and not self.options.branch:
            with self._lock:
                self._detector.confirm()
                self.diverged(divergence)

    def _place_of(self, around: "Execution | None") -> CallPosition:
        if around is None or OUTSIDE in around.notes:
            return self._root
        found = getattr(around, "place", None)
        if not isinstance(found, CallPosition):
            parent = self._place_of(around.parent)
            path = parent.step(around.kind, around.name)
            call = parent.nearest(around.kind, around.name)
            found = around.place = parent.within(around.kind, call, path)
        return found

    def _unknown(
        self, made: MadeCall, parent: CallPosition, path: str, data: dict[str, Any]
    ) -> Call | None:
        """Handle a call that is not on the tape; return the nearest one to serve instead, if any."""
        threaded = threading.get_ident() != self._first_thread
        if not self.tape.complete and (threaded or self._tape_used_up()):
            # Threads and tasks begin in any order, so the missing part may precede the recorded
            # one.
            self.end_of_tape(f"{path} is not on it any more")
        if self.options.branch:
            self._leave_tape()
            return None
        near = parent.nearest(
            made.kind, made.name, lambda call: likeness(self._data_of(call.arguments), data)
        )
        if near is None:
            lost = threaded and parent is self._root and self._rooted
            self._detector.unexpected(
                *(made.kind, made.name, path, data, location(made.function)), lost=lost
            )
        else:
            self._detector.changed(near, path, data, lambda: location(made.function))
            # If the substituted call is made later, this one was an extra call.
            self._displaced[made.kind, made.name, near.arguments_hash] = near
        if self.options.mode == "live-after":
            self._leave_tape()
            return None
        return near

    def _repeat(self, made: MadeCall, parent: CallPosition, path: str) -> RepeatedCall:
        """Serve the previous result of a call with the same name; without any, end the run."""
        before = [
            call
            for number, place in self._made.items()
            if (call := self.tape.calls[number]).kind == made.kind
            and call.name == made.name
            and place is parent
            and self.reel.has_given(call.end)
        ]
        if not before:
            if not self._ended_at:
                self._ended_at = path
                self.report.notes.append(
                    f"Note: the run went no further: the tape has nothing to give for {path}."
                )
            raise DivergenceError(self.report.divergences[-1])
        self.report.notes.append(f"Note: {path} was given what {made.name} gave before, to go on.")
        self.report.served += 1
        self._note_call(made, path, "repeated", before[-1])
        return RepeatedCall(self, before[-1])

    def _run_live(self, made: MadeCall, path: str) -> Live:
        self._permissions.check_call(made, path)
        name, self.report.live = made.name, self.report.live + 1
        self._note_call(made, path, "live")
        if made.execution is not None:
            made.execution.place = CallPosition(None, path, inside=True)
        return LiveCall(self._overrides.arguments_of(name, self._begun), made.function)

    def _go_on_live(self, *, after: bool = False) -> None:
        """Continue live after a difference, if the mode is `live-after`."""
        differs = after or self._detector.suspicion is not None
        if differs and self.options.mode == "live-after" and not self.options.branch:
            self._leave_tape(self._begun + after)

    def _leave_tape(self, first: int | None = None) -> None:
        self.live = True
        self.report.live_from = first or self._begun
        self.clock.run()
        self.reel.give_up()

    def _tape_used_up(self) -> bool:
        """Return whether all calls of the tape were made, or all results delivered."""
        return self.reel.next is None or all(c.number in self._made for c in self.tape.boundaries())

    def end_of_tape(self, where: str) -> None:
        """Stop the run at the end of a truncated tape."""
        self.report.ended_early = True
        self.report.notes.append(f"Note: {where}.")
        raise TapeEndedError(f"the tape of {self.tape.trace_id} ends here: {self.tape.reasons[0]}")

    def diverged(self, divergence: Divergence) -> None:
        """Record a divergence; in strict mode raise the first and ignore later ones."""
        if self.options.branch and divergence.kind in _EXPECTED:
            return
        with self._lock:
            if not self._stopped():
                self.report.divergences.append(divergence)
                if self.is_in_child:
                    elsewhere.note(divergence)
        if self.options.mode == "strict" and not self.over:
            raise DivergenceError(self.report.divergences[0])

    def _stopped(self) -> bool:
        """Return whether a divergence has stopped the run."""
        return self.options.mode == "strict" and bool(self.report.divergences)

    def stalled(self, given: Given | None, *, hopeless: bool = False) -> BaseException | None:
        """Return the error for a stalled run, or `None` to continue out of order."""
        if self._stopped():
            return DivergenceError(self.report.divergences[0])
        if self._detector.suspicion is not None:
            if not hopeless:
                return None
            try:
                self._detector.confirm()
            except DivergenceError as error:
                return error
        if not self.tape.complete:
            self.report.ended_early = True
            return TapeEndedError(f"the tape of {self.tape.trace_id} ends here")
        if not hopeless and self.reel.waits_for_others(given):
            return None
        name = self.tape.calls[given.call].name if given is not None else ""
        divergence = Divergence("stalled", name, name or "the run", 0, detail=self._awaits(given))
        missing = None
        if given is None or given.call not in self._made:
            missing = next(self._detector.missing(), None)
        found = [divergence] if missing is None else [missing, divergence]
        self.report.divergences += found[:1] if self.options.mode == "strict" else found
        return DivergenceError(found[0])

    def _awaits(self, given: Given | None) -> str:
        if given is None:
            return "everything on the tape has been given"
        state = "was called and waits" if given.call in self._made else "has not been called"
        return f"next on the tape is the end of {self.tape.calls[given.call].name}, which {state}"

    def ended(self, how: str, value: Any) -> None:
        """Compare the end of the outermost call with the tape."""
        closed = self.tape.closed
        if closed is None or self.live or self._stopped():
            return
        if how == "cancelled" and self.report.divergences:
            return  # the end of a stopped run
        with self._lock:
            packed = pack(value, self.privacy, represent=True)
            at = raised_at(value) if isinstance(value, BaseException) else None
            self.report.ending = Ending(how, packed.data, at)
            self._detector.at_the_end()
            self._decisions_left()
            if not self.options.compare_output or closed["how"] == "block":
                return
            if differing := endings.difference(self.tape, self.report, how, packed):
                self.diverged(differing)

    def finish(self) -> None:
        """End the re-execution and report missing calls."""
        with self._lock:
            self.over = True
            if self.live:
                self._detector.confirm()
            elif not self.tape.complete:
                self._detector.confirm()
                self.report.ended_early = True
            else:
                self._detector.at_the_end()
                self._decisions_left()
                self._not_begun()
        self.loops.restore()

    def stop(self) -> None:
        """End an interrupted re-execution; the rest of the tape is not reported as missing."""
        self.over = True
        self.loops.restore()

    def settle(self) -> None:
        """Report the pending suspicion before another kind of error."""
        with self._lock:
            self._detector.confirm()

    def _not_begun(self) -> None:
        """Report a run that did not begin, even if it makes no calls."""
        closed, root = self.tape.closed, self.tape.calls.get(self.tape.header.get("n", 1))
        if closed is None or closed["how"] == "block" or root is None or self.report.divergences:
            return
        if root.kind not in BOUNDARIES and not self._rooted:
            detail = "the run itself did not begin"
            self.diverged(Divergence("missing", root.name, root.name, 0, detail=detail))

    def begins_block(self, execution: "Execution", effect: str) -> None:
        """Check whether a `with` block may run; blocks cannot be served."""
        self._permissions.check_block(execution, effect)

    def decide(self, execution: "Execution | None", decision_type: str) -> tuple[bool, Any]:
        """Return whether a decision is forced, and its value."""
        del execution
        return self._overrides.decision(decision_type)

    def decided(
        self, execution: "Execution | None", decision_type: str, result: Any, candidates: Any
    ) -> None:
        """Compare a decision with the one on the tape."""
        del candidates
        if execution is None or OUTSIDE in execution.notes:
            return
        with self._lock:
            place = self._place_of(execution)
            parent = place.call.number if place.call is not None else 0
            if self.live or self._overrides.decision(decision_type)[0]:
                return
            now = pack(result, self.privacy).data
            recorded = self._decisions.take(parent, decision_type, now)
            if recorded is MATCHED:
                return
            self._detector.confirm()
            path = f"{place.path} / {decision_type}"
            if recorded is NOT_RECORDED:
                found = Divergence(
                    *("decision", decision_type, path, 0),
                    location=location(),
                    detail=f"it is not on the tape: {shown(now)}",
                )
            else:
                differing = differences(recorded, now)
                found = Divergence("decision", decision_type, path, 0, differing, location())
            self.diverged(found)
            self._go_on_live(after=True)

    def _decisions_left(self) -> None:
        """Report decisions of the tape that were not made."""
        for divergence in self._decisions.left():
            if not self._overrides.decision(divergence.name)[0]:
                self.diverged(divergence)

    def value(self, given: Given) -> Any:
        """Decode the result of a call into a new value."""
        if given.value is None:
            raise ValueError("the value of this call was not kept on the tape")
        found = codec.decode(self.tape.data(given.value))
        if given.how == "raised":
            raise found
        return found
