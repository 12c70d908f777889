"""Matching of calls with calls on the tape: by parent, name, arguments and occurrence.

A call is matched among the calls inside the same parent: the n-th with the same arguments. So
tasks and threads match in any start order. If there is none, the first remaining call of the same
name is used, to report the change. Arguments that identify a run (`payloads.UNHASHED`) are not compared.
"""

import itertools
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from tracereel.tape.format import Call, Tape
from tracereel.tape.payloads import hash_of, text_of

MAX_TRIED: Final = 100
MAX_TEXT: Final = 20_000
"""Characters of arguments that are compared for their likeness."""


class CallPosition:
    """Call of the run, and the matching call of the tape, if any."""

    __slots__ = ("_around", "_by_hash", "_by_name", "_counts", "_used", "call", "inside", "path")

    def __init__(
        self,
        call: Call | None,
        path: str,
        *,
        around: "CallPosition | None" = None,
        inside: bool = False,
    ) -> None:
        self.path = path
        self.inside = inside
        """Whether this is a live boundary call; calls inside it run too."""
        self._around = around
        self._counts: dict[str, int] = {}
        self._used = False
        self._load(call, call.children if call is not None else [])

    @classmethod
    def root(cls, tape: Tape) -> "CallPosition":
        """Return the position around all outermost calls."""
        place = cls(None, "")
        place._load(None, tape.roots())
        return place

    def _load(self, call: Call | None, children: list[Call]) -> None:
        self.call = call
        self._by_hash: dict[tuple[str, str], list[Call]] = {}
        self._by_name: dict[str, deque[Call]] = {}
        for child in children:
            key = _key(child.kind, child.name)
            # Most lists have one entry; a list is smaller than a deque.
            self._by_hash.setdefault((key, child.arguments_hash), []).append(child)
            if (named := self._by_name.get(key)) is None:
                named = self._by_name[key] = deque()
            named.append(child)

    def step(self, kind: str, name: str) -> str:
        """Count a call of that name inside this one and return its path."""
        key = _key(kind, name)
        number = self._counts[key] = self._counts.get(key, 0) + 1
        own = name if number == 1 else f"{name} #{number}"
        return f"{self.path} / {own}" if self.path else own

    def within(self, kind: str, call: Call | None, path: str) -> "CallPosition":
        """Return the position of a scope inside this one.

        A step that the tape does not have is new: calls in it are those of the scope around it.
        """
        if kind == "step" and call is None and not self.inside:
            return self
        return CallPosition(call, path, around=self, inside=self.inside)

    def exact(self, kind: str, name: str, arguments_hash: str) -> Call | None:
        """Take and return the next call with these arguments, or `None`."""
        key = _key(kind, name)
        found = self._by_hash.get((key, arguments_hash))
        if not found:
            return None
        self._used = True
        call = found.pop(0)
        self._by_name[key].remove(call)
        return call

    def by_default(
        self, kind: str, name: str, data: Mapping[str, Any], left: list[str]
    ) -> Call | None:
        """Take the next call with these arguments but for parameters that are left at a default.

        The tape does not have them, because they were added to the function since.
        """
        for call in self.left_of(kind, name)[:MAX_TRIED]:
            names = set(left)
            if names and hash_of({key: data[key] for key in data if key not in names}) == (
                call.arguments_hash
            ):
                self._used = True
                self.take(call)
                return call
        return None

    def nearest(
        self, kind: str, name: str, likeness: Callable[[Call], float] | None = None
    ) -> Call | None:
        """Take and return the first remaining call of that name, whatever its arguments.

        Calls of several tasks, threads or jobs of a pool have no order: of the first of each, the
        most alike is taken.
        """
        found = self._by_name.get(_key(kind, name))
        if not found:
            return None
        self._used = True
        call = found[0]
        if likeness is not None and len(found) > 1:
            firsts: dict[tuple[object, ...], Call] = {}
            for each in itertools.islice(found, MAX_TRIED):
                firsts.setdefault((each.lane, each.task, *each.jobs), each)
            if len(firsts) > 1:
                call = max(firsts.values(), key=likeness)
        self.take(call)
        return call

    def moved(self, kind: str, name: str, arguments_hash: str) -> Call | None:
        """Find the call in a later scope of the same name.

        This applies only to the first call made in a scope. The position then moves to that later
        scope.
        """
        around = self._around
        if self._used or around is None or self.call is None:
            return None
        key = _key(kind, name)
        for other in around.left_of(self.call.kind, self.call.name):
            for child in other.children:
                if (_key(child.kind, child.name), child.arguments_hash) == (key, arguments_hash):
                    around.take(other)
                    around.put_back(self.call)
                    self._load(other, other.children)
                    return self.exact(kind, name, arguments_hash)
        return None

    def left_of(self, kind: str, name: str) -> list[Call]:
        """Return the remaining calls of that name."""
        return list(self._by_name.get(_key(kind, name), ()))

    def take(self, call: Call) -> None:
        """Mark a call as taken."""
        key = _key(call.kind, call.name)
        self._by_name[key].remove(call)
        self._by_hash[key, call.arguments_hash].remove(call)

    def put_back(self, call: Call) -> None:
        """Make a call available again."""
        key = _key(call.kind, call.name)
        self._by_hash[key, call.arguments_hash].insert(0, call)
        self._by_name[key].appendleft(call)


def _key(kind: str, name: str) -> str:
    return f"{kind}:{name}"


def likeness(one: Any, other: Any) -> float:
    """Return the share of the texts of two values that is the same at their beginning and end."""
    texts = [text_of(each)[:MAX_TEXT] for each in (one, other)]
    start = _alike(*texts)
    end = _alike(*(text[start:][::-1] for text in texts))
    return (start + end) / max(1, *map(len, texts))


def _alike(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def left_at_default(arguments: Any) -> list[str]:
    """Return the names of parameters that a call leaves at their defaults."""
    left = getattr(arguments, "left_at_default", None)
    return left() if left is not None else []
