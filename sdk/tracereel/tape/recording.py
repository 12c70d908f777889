"""Recording session: writes every boundary call of a run to its tape.

After `kill -9` the tape is usable up to the last call that ended. With `record="errors"` parts
stay in memory and are sent when something fails.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tracereel._core import error_details, framework_tools
from tracereel._core.tape_session import OUTSIDE, RUNS, Live, TapeSession
from tracereel._runtime import guard
from tracereel._runtime.compat import running_loop_or_none
from tracereel.config import Config
from tracereel.tape import classes, header, inner_usage, modules, outside
from tracereel.tape import format as tape_format
from tracereel.tape.codec import EncodedValue, encode
from tracereel.tape.gate import ResultGate
from tracereel.tape.inner_usage import USAGE, InnerUsage, Way
from tracereel.tape.overrides import encoded_candidates
from tracereel.tape.run_tape import RunTape, TapeNode
from tracereel.tape.statuses import COMPARED, status_of

if TYPE_CHECKING:
    from tracereel._core.context import Execution
    from tracereel._core.recorder import Recorder
    from tracereel._export.trace_state import TraceState

MAX_ITEMS: Final = 10_000
"""Stream items that are kept as the result of a run."""


class _RecordedCall(Live, TapeNode):
    """Call that runs and is recorded."""

    __slots__ = (
        *("_around", "_awaited", "_gate", "_items", "_opened", "_root"),
        *("boundary", "compared", "holds", "notes", "used"),
    )
    changes = False
    holds: bool

    def __init__(
        self,
        tape: RunTape,
        *,
        boundary: bool,
        gate: Any = None,
        root: "TraceState | None" = None,
        around: TapeNode | None = None,
    ) -> None:
        self.tape = tape
        self.covered = False
        self.bare = 0
        self._around = around
        """Node around a boundary that is no execution."""
        self.boundary = boundary
        self.compared = False
        """Whether its status is compared: an agent or pipeline."""
        self._root = root
        # `running_loop_or_none` does not raise, so calls without a loop stay cheap.
        self._opened = tape.turns.mark(1) if running_loop_or_none() is not None else None
        self._gate = gate
        self.holds = gate is not None
        self._items: list[Any] | None = None
        self._awaited = False
        self.notes: dict[str, Any] = {}
        """Fields that the program sets during a model call."""
        self.used: list[InnerUsage] = []
        """Usage recorded inside of the call."""

    def gives_coroutine(self) -> None:
        self._awaited = True

    def hold(self) -> None:
        self._gate.wait()

    async def hold_async(self) -> None:
        await self._gate.wait_async()

    def _ended(self) -> None:
        if self._around is not None:
            self._around.bare -= 1
            self._around = None

    def returned(self, result: Any) -> None:
        self._ended()
        try:
            if self.boundary:
                taken = encode(result)
                if self._opened is None and not self._awaited:
                    self.tape.give(
                        self, "returned", taken, None, usage=self._usage(), used=self.used
                    )
                else:
                    self._give("returned", taken)
            elif self.compared:
                self.tape.status(self, status_of("returned", result, self.notes))
            if self._root is not None:
                items = self._items
                whole = result if items is None else {"items": items, "result": result}
                self._close("returned", whole)
        except Exception as error:  # noqa: BLE001
            guard.report("tape", error)

    def raised(self, error: BaseException) -> None:
        self._ended()
        with guard.Guard("tape"):
            how = "raised"
            if error_details.cancels(error):
                how = "closed" if isinstance(error, GeneratorExit) else "cancelled"
            if self.boundary:
                self._give(how, encode(error))
            elif self.compared and how == "raised":
                self.tape.status(self, status_of(how, error, self.notes))
            if how == "raised":
                self.tape.keep()
            if how == "closed" and self._items is not None:
                self._close(how, {"items": self._items, "result": None})
            else:
                self._close(how, error)

    def gave(self, item: Any) -> None:
        with guard.Guard("tape"):
            if self.boundary:
                self._give("chunk", encode(item), chunk=True)
            if self._root is not None:
                self._items = self._items if self._items is not None else []
                if len(self._items) < MAX_ITEMS:
                    self._items.append(item)

    def _close(self, how: str, value: Any) -> None:
        if self._root is not None:
            self.tape.close(how, encode(value, represent=True))
            if self._root.tape is self.tape:
                self._root.tape = None

    def _give(self, how: str, taken: EncodedValue, *, chunk: bool = False) -> None:
        tape = self.tape
        turn = tape.turns.mark()
        waited = turn != self._opened
        if chunk:
            self._opened = turn
        usage = None if chunk else self._usage()
        tape.give(
            self,
            how,
            taken,
            turn,
            waited=waited,
            chunk=chunk,
            awaited=self._awaited,
            usage=usage,
            used=() if chunk else self.used,
        )

    def _usage(self) -> dict[str, Any] | None:
        """Return the tokens and the cost of the call, if it noted any."""
        notes = self.notes
        return {name: notes[name] for name in USAGE if name in notes} if notes else None


class Recordings(TapeSession):
    """Session that runs every call and records it."""

    def __init__(self, settings: "header.TapeSettings") -> None:
        self._settings = settings

    def begin(
        self,
        execution: "Execution | None",
        *,
        around: "Execution | None",
        kind: str,
        name: str,
        function: Any,
        arguments: Any,
        form: str,
        effect: str,
    ) -> Live:
        """Record the beginning of a call."""
        try:
            if around is not None and OUTSIDE in around.notes:
                around = None
            owner = execution if execution is not None else around
            if owner is None:
                return RUNS
            known = getattr(around, "tape", None) if around is not None else None
            if known is None or around is None or around.trace is not owner.trace:
                known = self._node_of(around, owner)
            if known is None:
                return RUNS
            parent: TapeNode = known
            tape = parent.tape
            root = parent is tape.root and execution is not None
            boundary = kind in tape_format.BOUNDARIES
            call = _RecordedCall(
                tape,
                boundary=boundary,
                gate=self._settings.gate if boundary and not parent.inside else None,
                root=owner.trace if root else None,
                around=parent if boundary and execution is None else None,
            )
            if execution is None:
                parent.bare += boundary
            tape.open(
                call,
                parent,
                kind=kind,
                name=name,
                function=classes.function_path(function) if function is not None else "",
                form=form,
                arguments=encode(arguments if type(arguments) is dict else dict(arguments)),
                effect=effect,
                defaults=arguments.left_at_default()
                if getattr(arguments, "defaults", ())
                else None,
                apart=kind == "tool" and function is not None and modules.is_apart(function),
            )
            if root:
                self._settings.describe(tape, call, owner, function, form)
            if execution is not None:
                execution.tape = call
            call.compared = kind in COMPARED
            if execution is not None and (kind == "llm" or call.compared):
                call.notes = execution.notes
            if kind == "llm":
                parent.covered = True
            return call
        except Exception as error:  # noqa: BLE001 - on an internal error the call runs unrecorded
            guard.report("tape", error)
            return RUNS

    def ended_block(self, execution: "Execution", error: BaseException | None) -> None:
        """Record the end of a `with` block, and of the run if outermost."""
        with guard.Guard("tape"):
            if execution.kind in tape_format.BOUNDARIES:
                self._runs_again(execution)
            tape = execution.trace.tape
            if not isinstance(tape, RunTape):
                return
            if error is not None and not error_details.cancels(error):
                tape.keep()
            if execution.parent is None or execution.parent.trace is not execution.trace:
                tape.close("block", None)
                execution.trace.tape = None

    def _runs_again(self, execution: "Execution") -> None:
        """Add a problem for a block that a replay must run again.

        Blocks are not served; only the calls in them are. No problem is added for a model block if
        a client call inside or beside it is on the tape, or for a tool block that is itself a
        recorded call.
        """
        node = self._node_of(execution, execution)
        if isinstance(node, _RecordedCall):
            return
        around = getattr(execution.parent, "tape", None)
        covered = node is not None and (node.covered or getattr(around, "covered", False))
        if node is not None and not (execution.kind == "llm" and covered):
            reason = f"the block of {execution.kind} {execution.name!r} cannot be served"
            node.tape.problem("partly", reason)

    def decided(
        self, execution: "Execution | None", decision_type: str, result: Any, candidates: Any
    ) -> None:
        """Record a decision."""
        with guard.Guard("tape"):
            if execution is None or OUTSIDE in execution.notes:
                return
            node = self._node_of(execution, execution)
            if node is not None:
                among = encoded_candidates(candidates)
                node.tape.decided(node, decision_type, encode(result), among)

    def used(self, execution: "Execution", way: Way, fields: Mapping[str, Any]) -> None:
        """Keep usage with the outermost call around it that a replay serves."""
        with guard.Guard("tape"):
            served: _RecordedCall | None = None
            around = execution.parent if way == "called" else execution
            while around is not None and around.trace is execution.trace:
                node = getattr(around, "tape", None)
                if isinstance(node, _RecordedCall) and node.boundary:
                    served = node
                around = around.parent
            if served is not None:
                inner_usage.keep(served.used, way, fields)

    def _tape_of(self, execution: "Execution") -> RunTape | None:
        trace = execution.trace
        found = trace.tape
        if found is None:
            framework_tools.install()
            outside.began_apart(execution)
            found = trace.tape = self._settings.tape_for(execution) or _NOT_RECORDED
            if isinstance(found, RunTape):
                outside.watch(found)
        return found if isinstance(found, RunTape) else None

    def _node_of(self, around: "Execution | None", owner: "Execution") -> TapeNode | None:
        """Return the node of the enclosing call; blocks and attempts get theirs lazily."""
        if around is None or around.trace is not owner.trace or OUTSIDE in around.notes:
            tape = self._tape_of(owner)
            return tape.root if tape is not None else None
        found = getattr(around, "tape", None)
        if not isinstance(found, TapeNode):
            parent = self._node_of(around.parent, around)
            if parent is None:
                return None
            tape = parent.tape
            found = around.tape = TapeNode(tape)
            tape.open(
                found,
                parent,
                kind=around.kind,
                name=around.name,
                function="",
                form="block",
                arguments=EncodedValue({}),
            )
            if parent is tape.root:
                self._settings.describe(tape, found, around, None, "block")
        return found


def start(recorder: "Recorder") -> Recordings:
    """Start recording the runs of a recorder according to its configuration."""
    config = recorder.config
    gate = ResultGate() if config.record_exact else None
    return Recordings(header.TapeSettings(recorder, config.record, config.record_rate, gate))


def choice_of(config: Config) -> dict[str, Any]:
    """Return the event fields that say why a run may have no tape."""
    if config.record == "sampled":
        return {"recording": config.record, "record_rate": config.record_rate}
    return {"recording": config.record} if config.record == "errors" else {}


_NOT_RECORDED: Final = "not recorded"
