"""Choice of runs: a share of them, or enough of each path through the program."""

import hashlib
from collections import Counter
from typing import Final

from tracereel.tape.format import Tape

MAX_STEPS: Final = 2_000
"""Steps of a run that its path has."""


def in_share(trace_id: str, share: float) -> bool:
    """Return whether a run belongs to a share; the same runs every time."""
    drawn = int.from_bytes(hashlib.sha256(trace_id.encode()).digest()[:8])
    return drawn < share * 2**64


def path_of(tape: Tape) -> bytes:
    """Return a digest of the agents, tools and decisions of a run, without repetitions in a row."""
    digest, before = hashlib.sha256(), ""
    for number in sorted(tape.calls)[:MAX_STEPS]:
        call = tape.calls[number]
        step = f"{call.parent and tape.calls[call.parent].name}/{call.kind}/{call.name}"
        if call.kind != "step" and step != before:
            digest.update(f"{step}\0".encode())
        before = step
    for decision in tape.decisions[:MAX_STEPS]:
        digest.update(f"{decision.type}={decision.value}\0".encode())
    return digest.digest()


class Variety:
    """Keeps runs until each path has enough of them."""

    def __init__(self, least: int) -> None:
        self._least = least
        self._kept: Counter[bytes] = Counter()

    @property
    def paths(self) -> int:
        """Number of distinct paths."""
        return len(self._kept)

    def wants(self, tape: Tape) -> bool:
        """Return whether a run is kept."""
        path = path_of(tape)
        if self._kept[path] >= self._least:
            return False
        self._kept[path] += 1
        return True
