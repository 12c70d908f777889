"""The critical path: what the run was waiting for at each moment, from its beginning to its end."""

from collections.abc import Sequence

import msgspec

from tracereel_collector.query.run.steps import Step
from tracereel_collector.query.run.tree import Run

_TOLERANCE = 1_000_000
"""A child may be written down as ending this much after its parent, in nanoseconds."""


class Segment(msgspec.Struct, frozen=True, gc=False):
    """A stretch of time and the step that was under way; None between steps."""

    step: Step | None
    start: int
    end: int


def critical_path(run: Run) -> list[Segment]:
    """Stretches that follow each other without a gap; together as long as the run.

    Walked from the end: of the children that a step waited for, the one that ended last held it up;
    before that one began, the one that ended last by then; and what is left is the step itself.
    """
    found: list[Segment] = []
    began, ended = run.began, run.ended
    waiting = [_Frame(None, began, ended, run.roots)]
    while waiting:
        frame = waiting[-1]
        child = frame.next_child()
        if child is None:
            waiting.pop()
            if frame.cursor > frame.start:
                found.append(Segment(frame.step, frame.start, frame.cursor))
            continue
        end = min(child.ended or frame.cursor, frame.cursor)
        if frame.cursor > end:
            found.append(Segment(frame.step, end, frame.cursor))
        start = max(child.began, frame.start)
        frame.cursor = start
        waiting.append(_Frame(child, start, end, child.children))
    return _joined(found[::-1])


class _Frame:
    """A step on the way, and how far back its time has been told."""

    __slots__ = ("_at", "_children", "cursor", "start", "step")

    def __init__(self, step: Step | None, start: int, end: int, children: Sequence[Step]) -> None:
        self.step, self.start, self.cursor = step, start, end
        self._children = sorted(children, key=lambda each: (_end(each, end), each.began))
        self._at = len(self._children)

    def next_child(self) -> Step | None:
        """The child that ended last before the cursor."""
        while self._at:
            self._at -= 1
            child = self._children[self._at]
            end = _end(child, self.cursor)
            if end <= self.start or self.cursor <= self.start:
                return None  # before its parent began: nobody waited for that
            if end <= self.cursor + _TOLERANCE and child.began < self.cursor:
                return child
        return None


def _end(step: Step, otherwise: int) -> int:
    return otherwise if step.ended is None else step.ended


def _joined(segments: Sequence[Segment]) -> list[Segment]:
    """Neighbours of the same step become one."""
    joined: list[Segment] = []
    for segment in segments:
        if joined and joined[-1].step is segment.step:
            joined[-1] = Segment(segment.step, joined[-1].start, segment.end)
        else:
            joined.append(segment)
    return joined
