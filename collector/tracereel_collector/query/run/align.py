"""Alignment of two call trees.

Steps match if their parents match and kind, agent and name are equal. Of several candidates, those with
the same input match first, then those at the same position.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracereel_collector.query.run.steps import RunStep

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Pair:
    """Matching steps of two runs; one is `None` if there is no match."""

    a: RunStep | None
    b: RunStep | None
    depth: int

    @property
    def shown(self) -> RunStep:
        """Step to show; that of the second run if both exist."""
        step = self.b if self.b is not None else self.a
        assert step is not None  # noqa: S101 - a pair of nothing is never made
        return step


def aligned(a: Sequence[RunStep], b: Sequence[RunStep]) -> list[Pair]:
    """Return pairs that cover all steps of both trees, parents before children, in run order."""
    found: list[Pair] = []
    waiting = [Pair(*pair, 0) for pair in reversed(_matched(a, b))]
    while waiting:
        pair = waiting.pop()
        found.append(pair)
        below = _matched(
            pair.a.children if pair.a is not None else (),
            pair.b.children if pair.b is not None else (),
        )
        waiting.extend(Pair(*each, pair.depth + 1) for each in reversed(below))
    return found


def input_hash(step: RunStep) -> int:
    """Return the hash of a step's input; 0 if unknown."""
    for row in (step.opening, step.closing):
        if row is not None and row.input_hash:
            return row.input_hash
    return 0


def _key(step: RunStep) -> Key:
    return (step.kind, step.agent, step.name)


def _matched(
    a: Sequence[RunStep], b: Sequence[RunStep]
) -> list[tuple[RunStep | None, RunStep | None]]:
    """Match siblings; steps without a match keep their position."""
    partners: dict[int, RunStep] = {}
    of_a, of_b = _grouped(a), _grouped(b)
    for key, group in of_a.items():
        partners |= {id(one): other for one, other in _paired(group, of_b.get(key, []))}
    taken = {id(other) for other in partners.values()}
    rest = deque(step for step in b if id(step) not in taken)
    places = {id(step): place for place, step in enumerate(b)}
    merged: list[tuple[RunStep | None, RunStep | None]] = []
    for step in a:
        other = partners.get(id(step))
        if other is not None:
            while rest and places[id(rest[0])] < places[id(other)]:
                merged.append((None, rest.popleft()))
        merged.append((step, other))
    return [*merged, *((None, step) for step in rest)]


def _grouped(steps: Sequence[RunStep]) -> dict[Key, list[RunStep]]:
    groups: dict[Key, list[RunStep]] = {}
    for step in steps:
        groups.setdefault(_key(step), []).append(step)
    return groups


def _paired(a: list[RunStep], b: list[RunStep]) -> Iterator[tuple[RunStep, RunStep]]:
    if len(a) == len(b):
        yield from zip(a, b, strict=True)
        return
    by_input: dict[int, deque[RunStep]] = {}
    for step in b:
        by_input.setdefault(input_hash(step), deque()).append(step)
    left: list[RunStep] = []
    used: set[int] = set()
    for step in a:
        same = by_input.get(input_hash(step))
        if input_hash(step) and same:
            other = same.popleft()
            used.add(id(other))
            yield step, other
        else:
            left.append(step)
    yield from zip(left, (step for step in b if id(step) not in used), strict=False)
