"""Inputs that make a regular expression backtrack, generated from its own parse tree."""

import re
import re._compiler as sre_compiler
import re._constants as sre
import re._parser as sre_parser
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, permutations
from typing import Any

MANY = 64
"""Repeats up to this number are a constant factor; more are treated as unbounded."""
_PREFERRED = "a1A_- .:/=\"'\\,@x…é\n\t\x00("
_SEPARATORS = ("", "-", " ", ".")
_STOPS = ("", "\x00", "\n!")
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
_EXAMPLES = 5
_PLACE = "\ue000"
"""Placeholder for a word that differs in every repetition, for back-references."""
_MOST = 400
"""Maximum attacks per pattern; those on unbounded repeats come first."""


class UncoveredError(Exception):
    """The generator does not support a part of the pattern."""


@dataclass(frozen=True)
class Attack:
    """`lead`, then `pump` as often as fits, then `stop`; placeholders in the pump are unique."""

    lead: str
    pump: str
    stop: str

    def text(self, size: int) -> str:
        times = max(1, size // len(self.pump))
        if _PLACE not in self.pump:
            return self.lead + self.pump * times + self.stop
        pumps = (self.pump.replace(_PLACE, _letters(number)) for number in range(times))
        return self.lead + "".join(pumps) + self.stop


def _letters(number: int) -> str:
    """Return a word that is unique for the number."""
    word = ""
    while number or not word:
        number, letter = divmod(number, 26)
        word += chr(ord("a") + letter)
    return word


def attacks(pattern: str | bytes, flags: int = 0) -> list[Attack]:
    """Return attacks on every repeat and every prefix of a pattern."""
    return list(islice(dict.fromkeys(_Generator(pattern, flags).attacks()), _MOST))


def _is_many(op: Any, value: Any) -> bool:
    return op in _REPEATS and value[1] > MANY


def _inside(op: Any, value: Any) -> list[Any]:
    if op in _REPEATS:
        return [value[2]]
    if op is sre.SUBPATTERN:
        return [value[3]]
    if op is sre.BRANCH:
        return list(value[1])
    if op in (sre.ASSERT, sre.ASSERT_NOT):
        return [value[1]]
    if op is sre.ATOMIC_GROUP:
        return [value]
    return []


def _references(tree: Any) -> Iterator[int]:
    for op, value in tree:
        if op is sre.GROUPREF:
            yield value
        for inner in _inside(op, value):
            yield from _references(inner)


class _Generator:
    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._is_bytes = isinstance(pattern, bytes)
        self._tree = sre_parser.parse(pattern, flags)
        self._flags = self._tree.state.flags
        self._referenced = set(_references(self._tree))

    def attacks(self) -> Iterator[Attack]:
        places = [
            *dict.fromkeys([*self._places(self._tree, "", 0), *self._places(self._tree, "", 1)])
        ]
        if not places:
            raise UncoveredError("no part of it could be repeated")
        for lead, pump, is_many in sorted(places, key=lambda place: not place[2]):
            for stop in _STOPS if is_many else _STOPS[:2]:
                yield Attack(lead, pump, stop)
            for separator in _SEPARATORS:
                # The prefix of a match, repeated.
                yield Attack("", separator + lead + pump, "\x00")
            yield Attack("", lead + pump, "")
        # Two parts of the pattern in alternation, after its prefix.
        pumps = [*dict.fromkeys(pump for _, pump, is_many in places if is_many)][:6]
        for one, other in permutations(pumps, 2):
            yield Attack(places[0][0], one + other, "\x00")

    def _places(self, tree: Any, lead: str, least: int) -> Iterator[tuple[str, str, bool]]:
        """Yield the prefix, the repeated text, and whether the repeat is unbounded.

        The prefix contains every optional part at least so often.
        """
        for op, value in tree:
            for example in self._of(op, value, least=1):
                if example:
                    yield lead, example, _is_many(op, value)
            for inner in _inside(op, value):
                yield from self._places(inner, lead, least)
            lead = (lead + self._of(op, value, least=least)[0])[:200]

    def _sequence(self, tree: Any) -> list[str]:
        parts = [self._of(op, value, least=0) for op, value in tree]
        base = [part[0] if part else "" for part in parts]
        found = ["".join(base)]
        for index, part in enumerate(parts):
            found += ["".join([*base[:index], each, *base[index + 1 :]]) for each in part[1:]]
        return found[:_EXAMPLES]

    def _of(self, op: Any, value: Any, *, least: int) -> list[str]:
        """Return examples that match a node; a repeat occurs at least so often."""
        if op is sre.LITERAL:
            return [chr(value)]
        if op in (sre.NOT_LITERAL, sre.IN, sre.ANY):
            return self._characters(op, value)
        if op in _REPEATS:
            times = min(max(value[0], least), 40)
            return [each * times for each in self._sequence(value[2])] if times else [""]
        if op is sre.SUBPATTERN:
            again = [_PLACE] if value[0] in self._referenced else []
            return [*again, *self._sequence(value[3])]
        if op is sre.ATOMIC_GROUP:
            return self._sequence(value)
        if op is sre.BRANCH:
            each = [self._sequence(branch) for branch in value[1]]
            return list(dict.fromkeys(example for examples in each for example in examples))[:40]
        if op in (sre.AT, sre.ASSERT_NOT, sre.GROUPREF):
            return [""]
        if op is sre.ASSERT:
            return self._sequence(value[1]) if least else [""]
        raise UncoveredError(f"the generator knows no {op}")

    def _characters(self, op: Any, value: Any) -> list[str]:
        node = sre_parser.SubPattern(self._tree.state, [(op, value)])
        one = sre_compiler.compile(node, self._flags)
        wanted = [chr(n) for n in range(256)]
        for ch in (*_PREFERRED, *self._named(value if op is sre.IN else []), *wanted):
            if self._is_bytes and ord(ch) > 255:
                continue
            if one.fullmatch(ch.encode("latin-1") if self._is_bytes else ch):
                return [ch, *self._others(one, ch)]
        raise UncoveredError(f"no character was found for {value}")

    def _others(self, one: "re.Pattern[Any]", first: str) -> list[str]:
        """Return characters of other kinds in the same set."""
        others = [ch for ch in "1-_ ." if ch != first]
        return [ch for ch in others if one.fullmatch(ch.encode() if self._is_bytes else ch)][:2]

    @staticmethod
    def _named(items: Any) -> Iterator[str]:
        for op, value in items:
            if op is sre.LITERAL:
                yield chr(value)
            elif op is sre.RANGE:
                yield chr(value[0])


__all__ = ["Attack", "UncoveredError", "attacks"]
