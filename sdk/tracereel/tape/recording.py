"""Recording: every boundary call of a run on its tape, as parts that leave with the run's events.

After `kill -9` the tape is good up to the last call that ended. With `record="errors"` parts wait in
memory, and leave when something fails.
"""

from typing import TYPE_CHECKING, Any, Final

from tracereel import _failures
from tracereel.tape import format as tape_format
from tracereel.tape import header
from tracereel.tape.payloads import pack
from tracereel.tape.run_tape import Node, RunTape
from tracereel.tape.taped import Live, quietly

if TYPE_CHECKING:
    from tracereel._context import Execution, Trace

MAX_ITEMS: Final = 10_000
"""Parts of a stream that count for the result of a run."""


class RecordedCall(Live):
    """A call that runs and is written down."""

    __slots__ = ("_awaited", "_boundary", "_gate", "_items", "_node", "_opened", "_root", "_tape")

    def __init__(
        self,
        tape: RunTape,
        node: Node,
        *,
        boundary: bool,
        opened: tuple[int, int] | None,
        gate: Any = None,
        root: "Trace | None" = None,
    ) -> None:
        self._tape = tape
        self._node = node
        self._boundary = boundary
        self._root = root
        self._opened = opened
        self._gate = gate
        self._items: list[Any] | None = None
        self._awaited = False

    @property
    def holds(self) -> bool:  # type: ignore[override]
        return self._gate is not None

    def gives_coroutine(self) -> None:
        self._awaited = True

    def hold(self) -> None:
        self._gate.wait()

    async def hold_async(self) -> None:
        await self._gate.wait_async()

    def returned(self, result: Any) -> None:
        with quietly("tape"):
            if self._boundary:
                self._give("returned", result)
            items = self._items
            self._close("returned", result if items is None else {"items": items, "result": result})

    def raised(self, error: BaseException) -> None:
        with quietly("tape"):
            how = "raised"
            if _failures.cancels(error):
                how = "closed" if isinstance(error, GeneratorExit) else "cancelled"
            if self._boundary:
                self._give(how, error)
            if how == "raised":
                self._tape.keep()
            self._close(how, error)

    def gave(self, item: Any) -> None:
        with quietly("tape"):
            if self._boundary:
                self._give("chunk", item, chunk=True)
            if self._root is not None:
                self._items = self._items if self._items is not None else []
                if len(self._items) < MAX_ITEMS:
                    self._items.append(item)

    def _close(self, how: str, value: Any) -> None:
        if self._root is not None:
            self._tape.close(how, pack(value, self._tape.privacy))
            if self._root.tape is self._tape:
                self._root.tape = None

    def _give(self, how: str, value: Any, *, chunk: bool = False) -> None:
        tape = self._tape
        turn = tape.turns.mark()
        waited = turn != self._opened
        self._opened = turn if chunk else self._opened
        tape.give(
            self._node,
            how,
            pack(value, tape.privacy),
            turn=turn,
            waited=waited,
            chunk=chunk,
            awaited=self._awaited,
        )


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
        begun: Live = _UNRECORDED
        with quietly("tape"):
            owner = execution if execution is not None else around
            parent = self._node_of(around, owner) if owner is not None else None
            if owner is None or parent is None:
                return begun
            tape = parent.tape
            root = parent is tape.root and execution is not None
            boundary = kind in tape_format.BOUNDARIES
            node = tape.open(
                parent,
                kind=kind,
                name=name,
                function=header.path_of(function) if function is not None else "",
                form=form,
                arguments=pack(dict(_pairs(arguments)), tape.privacy).data,
                effect=effect,
            )
            if root:
                self._settings.describe(tape, node, owner, function, form)
            if execution is not None:
                execution.tape = node
            opened = tape.turns.mark(1)
            gate = self._settings.gate if boundary and not parent.inside else None
            trace = owner.trace if root else None
            begun = RecordedCall(
                tape, node, boundary=boundary, opened=opened, gate=gate, root=trace
            )
        return begun  # noqa: RET504 - the guard swallows errors of ours, and then the call just runs

    def ended_block(self, execution: "Execution", error: BaseException | None) -> None:
        """A `with` block has ended; the run too, if it is the outermost."""
        with quietly("tape"):
            tape = execution.trace.tape
            if not isinstance(tape, RunTape):
                return
            if error is not None and not _failures.cancels(error):
                tape.keep()
            if execution.parent is None or execution.parent.trace is not execution.trace:
                tape.close("block", None)
                execution.trace.tape = None

    def decide(self, execution: "Execution | None", decision_type: str) -> tuple[bool, Any]:
        """Nothing is forced."""
        del execution, decision_type
        return False, None

    def decided(self, execution: "Execution | None", decision_type: str, result: Any) -> None:
        """Write down what was decided."""
        with quietly("tape"):
            node = self._node_of(execution, execution) if execution is not None else None
            if node is not None:
                node.tape.decided(node, decision_type, pack(result, node.tape.privacy))

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
            found = tape.open(
                parent, kind=around.kind, name=around.name, function="", form="block", arguments={}
            )
            around.tape = found
            if parent is tape.root:
                self._settings.describe(tape, found, around, None, "block")
            if around.kind in tape_format.BOUNDARIES:
                tape.problem("partly", f"the block of {around.kind} {around.name!r} runs again")
        return found


def _pairs(arguments: Any) -> Any:
    return arguments.items() if isinstance(arguments, dict) else arguments


_UNRECORDED: Final = Live()
_NOT_RECORDED: Final = "not recorded"
