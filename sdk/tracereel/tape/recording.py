"""Recording: every boundary call of a run on its tape, as parts that leave with the run's events.

After `kill -9` the tape is good up to the last call that ended. With `record="errors"` parts wait in
memory, and leave when something fails.
"""

from asyncio import _get_running_loop
from typing import TYPE_CHECKING, Any, Final

from tracereel import _failures, _guard
from tracereel.tape import choosing, header
from tracereel.tape import format as tape_format
from tracereel.tape.payloads import Taken, take
from tracereel.tape.run_tape import Node, RunTape
from tracereel.tape.taped import Live, quietly

if TYPE_CHECKING:
    from tracereel._context import Execution, Trace

MAX_ITEMS: Final = 10_000
"""Parts of a stream that count for the result of a run."""


class RecordedCall(Live, Node):
    """A call that runs and is written down."""

    __slots__ = ("_awaited", "_boundary", "_gate", "_items", "_opened", "_root", "holds", "written")
    changes = False
    holds: bool

    def __init__(
        self, tape: RunTape, *, boundary: bool, gate: Any = None, root: "Trace | None" = None
    ) -> None:
        self.tape = tape
        self.covered = False
        self._boundary = boundary
        self._root = root
        # Asked like this it does not raise where no loop runs, which every plain call would pay for.
        self._opened = tape.turns.mark(1) if _get_running_loop() is not None else None
        self._gate = gate
        self.holds = gate is not None
        self._items: list[Any] | None = None
        self._awaited = False
        self.written: bytes | None = None
        """What the call returned, as JSON, where it is plain data."""

    def gives_coroutine(self) -> None:
        self._awaited = True

    def hold(self) -> None:
        self._gate.wait()

    async def hold_async(self) -> None:
        await self._gate.wait_async()

    def returned(self, result: Any) -> None:
        try:
            if self._boundary:
                taken = take(result)
                self.written = taken if type(taken) is bytes else None
                if self._opened is None and not self._awaited:
                    self.tape.give(self, "returned", taken, None)
                else:
                    self._give("returned", taken)
            if self._root is not None:
                items = self._items
                whole = result if items is None else {"items": items, "result": result}
                self._close("returned", whole)
        except Exception as error:  # noqa: BLE001
            _guard.report("tape", error)

    def raised(self, error: BaseException) -> None:
        with quietly("tape"):
            how = "raised"
            if _failures.cancels(error):
                how = "closed" if isinstance(error, GeneratorExit) else "cancelled"
            if self._boundary:
                self._give(how, take(error))
            if how == "raised":
                self.tape.keep()
            if how == "closed" and self._items is not None:
                self._close(how, {"items": self._items, "result": None})
            else:
                self._close(how, error)

    def gave(self, item: Any) -> None:
        with quietly("tape"):
            if self._boundary:
                self._give("chunk", take(item), chunk=True)
            if self._root is not None:
                self._items = self._items if self._items is not None else []
                if len(self._items) < MAX_ITEMS:
                    self._items.append(item)

    def _close(self, how: str, value: Any) -> None:
        if self._root is not None:
            self.tape.close(how, take(value))
            if self._root.tape is self.tape:
                self._root.tape = None

    def _give(self, how: str, taken: Taken, *, chunk: bool = False) -> None:
        tape = self.tape
        turn = tape.turns.mark()
        waited = turn != self._opened
        if chunk:
            self._opened = turn
        awaited = self._awaited
        tape.give(self, how, taken, turn, waited=waited, chunk=chunk, awaited=awaited)


class Recordings:
    """The tapes of one recorder: a `Session` that runs everything and writes it down."""

    def __init__(self, settings: "header.Settings") -> None:
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
        """Write down that a call has begun."""
        try:
            owner = execution if execution is not None else around
            if owner is None:
                return _UNRECORDED
            known = getattr(around, "tape", None) if around is not None else None
            if known is None or around is None or around.trace is not owner.trace:
                known = self._node_of(around, owner)
            if known is None:
                return _UNRECORDED
            parent: Node = known
            tape = parent.tape
            root = parent is tape.root and execution is not None
            boundary = kind in tape_format.BOUNDARIES
            call = RecordedCall(
                tape,
                boundary=boundary,
                gate=self._settings.gate if boundary and not parent.inside else None,
                root=owner.trace if root else None,
            )
            tape.open(
                call,
                parent,
                kind=kind,
                name=name,
                function=header.path_of(function) if function is not None else "",
                form=form,
                arguments=take(arguments if type(arguments) is dict else dict(arguments)),
                effect=effect,
            )
            if root:
                self._settings.describe(tape, call, owner, function, form)
            if execution is not None:
                execution.tape = call
            if kind == "llm":
                parent.covered = True
            return call
        except Exception as error:  # noqa: BLE001 - ours: then the call just runs
            _guard.report("tape", error)
            return _UNRECORDED

    def begins_block(self, execution: "Execution", effect: str) -> None:
        """A `with` block is about to run: it may."""

    def ended_block(self, execution: "Execution", error: BaseException | None) -> None:
        """A `with` block has ended; the run too, if it is the outermost."""
        with quietly("tape"):
            if execution.kind in tape_format.BOUNDARIES:
                self._runs_again(execution)
            tape = execution.trace.tape
            if not isinstance(tape, RunTape):
                return
            if error is not None and not _failures.cancels(error):
                tape.keep()
            if execution.parent is None or execution.parent.trace is not execution.trace:
                tape.close("block", None)
                execution.trace.tape = None

    def _runs_again(self, execution: "Execution") -> None:
        """A block is not served: its code runs in a replay too, except for calls in it.

        That is enough for a model: a framework tells of the call that its client makes beside it. And a
        tool that a framework tells of may have been a call on the tape itself.
        """
        node = self._node_of(execution, execution)
        if isinstance(node, RecordedCall):
            node.written = None  # the framework tells what it made of it
            return
        around = getattr(execution.parent, "tape", None)
        covered = node is not None and (node.covered or getattr(around, "covered", False))
        if node is not None and not (execution.kind == "llm" and covered):
            reason = f"the block of {execution.kind} {execution.name!r} cannot be served"
            node.tape.problem("partly", reason)

    def decide(self, execution: "Execution | None", decision_type: str) -> tuple[bool, Any]:
        """Nothing is forced."""
        del execution, decision_type
        return False, None

    def decided(
        self, execution: "Execution | None", decision_type: str, result: Any, candidates: Any
    ) -> None:
        """Write down what was decided."""
        with quietly("tape"):
            node = self._node_of(execution, execution) if execution is not None else None
            if node is not None:
                among = choosing.taken(candidates)
                node.tape.decided(node, decision_type, take(result), among)

    def _tape_of(self, execution: "Execution") -> RunTape | None:
        trace = execution.trace
        found = trace.tape
        if found is None:
            found = trace.tape = self._settings.tape_for(execution) or _NOT_RECORDED
        return found if isinstance(found, RunTape) else None

    def _node_of(self, around: "Execution | None", owner: "Execution") -> Node | None:
        """The node of the call around; blocks and attempts get theirs when something is called in them."""
        if around is None or around.trace is not owner.trace:
            tape = self._tape_of(owner)
            return tape.root if tape is not None else None
        found = getattr(around, "tape", None)
        if not isinstance(found, Node):
            parent = self._node_of(around.parent, around)
            if parent is None:
                return None
            tape = parent.tape
            found = around.tape = Node(tape)
            tape.open(
                found,
                parent,
                kind=around.kind,
                name=around.name,
                function="",
                form="block",
                arguments=b"{}",
            )
            if parent is tape.root:
                self._settings.describe(tape, found, around, None, "block")
        return found


_UNRECORDED: Final = Live()
_NOT_RECORDED: Final = "not recorded"
