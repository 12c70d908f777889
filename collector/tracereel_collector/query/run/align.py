"""Two call trees laid side by side: which step of the one is which of the other.

Steps are the same call when the calls around them are, and kind, agent and name agree. Of several such
calls those with the same input belong together, then those that came in the same place.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracereel_collector.query.run.steps import Step

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Pair:
    """A step of the first run, the same of the second, or only one of them."""

    a: Step | None
    b: Step | None
    depth: int

    @property
    def shown(self) -> Step:
        """The one that there is; of both, the second."""
        step = self.b if self.b is not None else self.a
        assert step is not None  # noqa: S101 - a pair of nothing is never made
        return step


def aligned(a: Sequence[Step], b: Sequence[Step]) -> list[Pair]:
    """Every step of both trees in one pair, parents before their children, in the order of the runs."""
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


def input_hash(step: Step) -> int:
    """What a step was given, in short; 0 where nothing is known of it."""
    for row in (step.opening, step.closing):
        if row is not None and row.input_hash:
            return row.input_hash
    return 0


def _key(step: Step) -> Key:
    return (step.kind, step.agent, step.name)


def _matched(a: Sequence[Step], b: Sequence[Step]) -> list[tuple[Step | None, Step | None]]:
    """Siblings with siblings; what has no partner stands where it happened."""
    partners: dict[int, Step] = {}
    of_a, of_b = _grouped(a), _grouped(b)
    for key, group in of_a.items():
        partners |= {id(one): other for one, other in _paired(group, of_b.get(key, []))}
    taken = {id(other) for other in partners.values()}
    rest = deque(step for step in b if id(step) not in taken)
    places = {id(step): place for place, step in enumerate(b)}
    merged: list[tuple[Step | None, Step | None]] = []
    for step in a:
        other = partners.get(id(step))
        if other is not None:
            while rest and places[id(rest[0])] < places[id(other)]:
                merged.append((None, rest.popleft()))
        merged.append((step, other))
    return [*merged, *((None, step) for step in rest)]


def _grouped(steps: Sequence[Step]) -> dict[Key, list[Step]]:
    groups: dict[Key, list[Step]] = {}
    for step in steps:
        groups.setdefault(_key(step), []).append(step)
    return groups


def _paired(a: list[Step], b: list[Step]) -> Iterator[tuple[Step, Step]]:
    if len(a) == len(b):
        yield from zip(a, b, strict=True)
        return
    by_input: dict[int, deque[Step]] = {}
    for step in b:
        by_input.setdefault(input_hash(step), deque()).append(step)
    left: list[Step] = []
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
