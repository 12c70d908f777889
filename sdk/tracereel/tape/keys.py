"""Which call of the tape a call of the run is: by place, function, arguments and occurrence.

A call is looked for among the calls inside the same call: the n-th with these arguments, so that tasks and
threads find theirs in whatever order they start. Where there is none such, the first of its name that is
left stands for it, to say what has changed. Times, ids, addresses and salted hashes play no part.
"""

from collections import deque

from tracereel.tape.format import Call, Tape


class Place:
    """A call of the run, and the call of the tape it was matched with, if it was."""

    __slots__ = ("_around", "_by_hash", "_by_name", "_counts", "_used", "call", "inside", "path")

    def __init__(
        self, call: Call | None, path: str, *, around: "Place | None" = None, inside: bool = False
    ) -> None:
        self.path = path
        self.inside = inside
        """Whether this is a boundary call that runs: what is called in it runs too."""
        self._around = around
        self._counts: dict[str, int] = {}
        self._used = False
        self._load(call, call.children if call is not None else [])

    @classmethod
    def root(cls, tape: Tape) -> "Place":
        """The place of everything that no call is around."""
        place = cls(None, "")
        place._load(None, tape.roots())
        return place

    def _load(self, call: Call | None, children: list[Call]) -> None:
        self.call = call
        self._by_hash: dict[tuple[str, str], list[Call]] = {}
        self._by_name: dict[str, deque[Call]] = {}
        for child in children:
            key = _key(child.kind, child.name)
            # There are mostly as many of these as there are calls: lists, which are small.
            self._by_hash.setdefault((key, child.arguments_hash), []).append(child)
            if (named := self._by_name.get(key)) is None:
                named = self._by_name[key] = deque()
            named.append(child)

    def step(self, kind: str, name: str) -> str:
        """The path of a call of that name inside this one; counts it."""
        key = _key(kind, name)
        number = self._counts[key] = self._counts.get(key, 0) + 1
        own = name if number == 1 else f"{name} #{number}"
        return f"{self.path} / {own}" if self.path else own

    def exact(self, kind: str, name: str, arguments_hash: str) -> Call | None:
        """The next call with these arguments; it is taken."""
        key = _key(kind, name)
        found = self._by_hash.get((key, arguments_hash))
        if not found:
            return None
        self._used = True
        call = found.pop(0)
        self._by_name[key].remove(call)
        return call

    def nearest(self, kind: str, name: str) -> Call | None:
        """The first call of that name that is left, whatever its arguments; it is taken."""
        found = self._by_name.get(_key(kind, name))
        if not found:
            return None
        self._used = True
        call = found[0]
        self.take(call)
        return call

    def moved(self, kind: str, name: str, arguments_hash: str) -> Call | None:
        """The call that is looked for, in a later scope of this one's name: the scopes between are gone.

        Only for the first call made in a scope; the scope is then that later one.
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
        """The calls of that name that have not been taken."""
        return list(self._by_name.get(_key(kind, name), ()))

    def take(self, call: Call) -> None:
        """Take a call."""
        key = _key(call.kind, call.name)
        self._by_name[key].remove(call)
        self._by_hash[key, call.arguments_hash].remove(call)

    def put_back(self, call: Call) -> None:
        """Have a call free again."""
        key = _key(call.kind, call.name)
        self._by_hash[key, call.arguments_hash].insert(0, call)
        self._by_name[key].appendleft(call)


def _key(kind: str, name: str) -> str:
    return f"{kind}:{name}"
