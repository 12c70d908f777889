"""Critical path: the step that the run was waiting for at each moment."""

from collections.abc import Sequence

import msgspec

from tracereel_collector.query.run.steps import RunStep
from tracereel_collector.query.run.tree import RunTree

_TOLERANCE = 1_000_000
"""Nanoseconds by which a child may end after its parent."""


class Segment(msgspec.Struct, frozen=True, gc=False):
    """Time range and the step that was running; `None` between steps."""

    step: RunStep | None
    start: int
    end: int


def critical_path(run: RunTree) -> list[Segment]:
    """Return contiguous segments that cover the whole run.

    The walk starts at the end. The child that ended last delayed its parent; before that child began, the
    child that had ended last by then; remaining time belongs to the parent itself.
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
    """Step being walked, with the position up to which its time is assigned."""

    __slots__ = ("_at", "_children", "cursor", "start", "step")

    def __init__(
        self, step: RunStep | None, start: int, end: int, children: Sequence[RunStep]
    ) -> None:
        self.step, self.start, self.cursor = step, start, end
        self._children = sorted(children, key=lambda each: (_end(each, end), each.began))
        self._at = len(self._children)

    def next_child(self) -> RunStep | None:
        """Return the child that ended last before the cursor."""
        while self._at:
            self._at -= 1
            child = self._children[self._at]
            end = _end(child, self.cursor)
            if end <= self.start or self.cursor <= self.start:
                return None  # it ended before its parent began, so the parent did not wait for it
            if end <= self.cursor + _TOLERANCE and child.began < self.cursor:
                return child
        return None


def _end(step: RunStep, otherwise: int) -> int:
    return otherwise if step.ended is None else step.ended


def _joined(segments: Sequence[Segment]) -> list[Segment]:
    """Merge adjacent segments of the same step."""
    joined: list[Segment] = []
    for segment in segments:
        if joined and joined[-1].step is segment.step:
            joined[-1] = Segment(segment.step, joined[-1].start, segment.end)
        else:
            joined.append(segment)
    return joined
