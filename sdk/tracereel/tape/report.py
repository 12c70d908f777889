"""Report of a re-execution: its verdict, and everything that the verdict rests on, as data."""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tracereel.tape.differences import shown
from tracereel.tape.divergence import Divergence
from tracereel.tape.payloads import Packed, text_of
from tracereel.tape.text import printable

Verdict = Literal["same", "changed", "prompt_changed", "inconclusive"]
"""Verdict of a re-execution about the code.

`same`: everything that was compared is as recorded. `changed`: an output, a decision, a call or its
arguments, or a status differs. `prompt_changed`: only arguments of model calls differ; the
answers to them are unknown. `inconclusive`: there is no verdict, for one of the reasons in `Why`.
"""
Why = Literal["stalled", "network", "refused", "cut tape", "not replayable", "branch", "not begun"]
How = Literal["served", "live", "repeated", "forced", "refused"]

MAX_NOTES: Final = 20
MAX_CALLS: Final = 10_000
"""Calls that a report lists."""
MAX_VALUE: Final = 64 * 1024
"""Longest value, in characters of JSON, that a report has as data; of longer ones it has the text."""
_FUNCTIONS: Final = tuple(
    f"builtins:{name} " for name in ("function", "builtin_function_or_method", "method")
)
"""Beginnings of problems that are about functions."""
_UNDECIDED: Final = ("network", "stalled")
"""Kinds of divergence that are no evidence about the code."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a verdict is not `same`."""

    why: str
    """One of `Why`, or the kind of a divergence."""
    text: str


@dataclass(frozen=True, slots=True)
class ReportedCall:
    """Boundary call that the run made."""

    position: int
    kind: str
    name: str
    path: str
    how: How
    number: int | None = None
    """Number of the call on the tape."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: `returned`, `raised` or `closed`, with its result or exception as data."""

    how: str
    data: Any = None
    location: str | None = None
    """Line of the program that raised."""

    def to_json(self) -> dict[str, Any]:
        """Return the ending as plain data; a long value is left out and only its text kept."""
        whole = len(text_of(self.data)) <= MAX_VALUE
        found: dict[str, Any] = {"how": self.how, "text": shown(self.data)}
        found |= {"value": self.data} if whole else {"cut": True}
        return found | ({"location": self.location} if self.location else {})

    def __str__(self) -> str:
        at = f", at {printable(self.location)}" if self.location else ""
        return f"{self.how} {printable(shown(self.data))}{at}"


@dataclass(slots=True)
class Report:
    """Result of a re-execution."""

    trace_id: str
    mode: str = ""
    served: int = 0
    live: int = 0
    divergences: list[Divergence] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Remarks such as changed code or an incomplete tape."""
    ended_early: bool = False
    """Whether the tape ended before the run."""
    refused: str = ""
    """Why the run was stopped, if it attempted a call that is not allowed."""
    unplayable: str = ""
    """Why the run could not be executed again at all."""
    begun: bool = False
    """Whether any code ran against the tape."""
    branch: bool = False
    """Whether the run is a fork."""
    live_from: int | None = None
    """Number of the first live call, if the run continued live."""
    calls: list[ReportedCall] = field(default_factory=list)
    """Boundary calls in the order in which they were made, at most `MAX_CALLS`."""
    call_count: int = 0
    network: str = ""
    """Why the process had network interfaces, if it should have had none."""
    ending: Ending | None = None
    """How this run ended; `None` if it was stopped."""
    recorded: Ending | None = None
    """How the recorded run ended."""
    not_compared: list[str] = field(default_factory=list)
    """Values that could not be compared, or only by type."""

    @property
    def first(self) -> Divergence | None:
        """First divergence, or `None`."""
        return self.divergences[0] if self.divergences else None

    @property
    def identical(self) -> bool:
        """Whether the whole run matched the tape."""
        return self.verdict == "same"

    @property
    def verdict(self) -> Verdict:
        """Return the verdict of the re-execution about the code."""
        unclear = bool(self._unclear())
        first = self.first
        if first is None or first.kind in _UNDECIDED:
            return "inconclusive" if unclear else "same"
        if not all(
            _asks_otherwise(each) for each in self.divergences if each.kind not in _UNDECIDED
        ):
            return "changed"
        return "inconclusive" if unclear else "prompt_changed"

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Return why the verdict is not `same`."""
        unclear = self._unclear()
        if self.verdict == "inconclusive":
            return unclear
        found = [Reason(each.kind, each.headline) for each in self.divergences]
        return (*found, *(each for each in unclear if each.why not in _UNDECIDED))

    def _unclear(self) -> tuple[Reason, ...]:
        found: list[Reason] = []
        if self.unplayable:
            found.append(Reason("not replayable", self.unplayable))
        if self.refused:
            found.append(Reason("refused", self.refused))
        undecided = (each for each in self.divergences if each.kind in _UNDECIDED)
        found += [Reason(each.kind, each.headline) for each in undecided]
        if self.ended_early:
            found.append(Reason("cut tape", "the tape ends before the run did"))
        if self.branch:
            found.append(Reason("branch", "a branch is not compared with its run"))
        elif not self.begun and not self.divergences and not found:
            found.append(Reason("not begun", "no code ran against the tape"))
        return tuple(found)

    def called(
        self,
        kind: str,
        name: str,
        path: str,
        how: How,
        number: int | None = None,
    ) -> None:
        """Add a boundary call of the run."""
        self.call_count += 1
        if len(self.calls) < MAX_CALLS:
            self.calls.append(ReportedCall(self.call_count, kind, name, path, how, number))

    def note_unread(self, what: str, packed: Packed) -> None:
        """Note objects that are compared by type only, and what redaction hides."""
        for problem in packed.unread:
            if problem.startswith(_FUNCTIONS):
                continue  # there is nothing to compare
            how = "compared by its type only"
            self._unread(
                f"{what} ({problem})", f"{what} is {how}: {problem} (tracereel.tape.register)."
            )
        if packed.redacted:
            self._unread(
                f"what is redacted in {what}",
                f"{what} holds something that is redacted, of which only the kind is compared.",
            )

    def _unread(self, what: str, note: str) -> None:
        if what not in self.not_compared and len(self.not_compared) < MAX_NOTES:
            self.not_compared.append(what)
            self.notes.append(f"Note: {note}")

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON data."""
        return {
            "trace_id": self.trace_id,
            "verdict": self.verdict,
            "reasons": [{"why": each.why, "text": each.text} for each in self.reasons],
            "not_compared": list(self.not_compared),
            "mode": self.mode,
            "served": self.served,
            "live": self.live,
            "live_from": self.live_from,
            "divergences": [each.to_json() for each in self.divergences],
            "output": None if self.ending is None else self.ending.to_json(),
            "recorded_output": None if self.recorded is None else self.recorded.to_json(),
            "calls": [
                {
                    "position": each.position,
                    "kind": each.kind,
                    "name": each.name,
                    "path": each.path,
                    "how": each.how,
                    "number": each.number,
                }
                for each in self.calls
            ],
            "call_count": self.call_count,
            "notes": list(self.notes),
            "network": self.network,
        }

    @property
    def headline(self) -> str:
        """Return the verdict in one line."""
        trace_id = printable(self.trace_id)
        served = f"{self.served} {'call' if self.served == 1 else 'calls'} served, {self.live} made"
        verdict = self.verdict
        if self.branch and not self.divergences:
            since = f" from call {self.live_from} on" if self.live_from else ""
            return f"A branch of {trace_id}{since}: {served}."
        if verdict == "same":
            unread = f"; not compared: {', '.join(self.not_compared)}" if self.not_compared else ""
            return f"The run of {trace_id} went as recorded: {served}{printable(unread)}."
        if verdict == "inconclusive" and not self.divergences:
            if self.ended_early:
                return f"Inconclusive: the tape of {trace_id} ends before the run did: {served}."
            return f"Inconclusive: the run of {trace_id} was stopped: {served}."
        if self.live:
            return f"The run of {trace_id} went on by itself: {served}."
        count = len(self.divergences)
        often = "once" if count == 1 else f"{count} times"
        head = f"The run of {trace_id} left its tape {often}: {served}."
        if verdict == "prompt_changed":
            return (
                f"{head} Only what models are asked differs; what they would answer is not known."
            )
        if verdict == "inconclusive":
            whys = ", ".join(dict.fromkeys(each.why for each in self.reasons))
            return f"Inconclusive ({whys}): {head[0].lower()}{head[1:]}"
        return head

    def __str__(self) -> str:
        lines = [self.headline, *map(printable, self.notes), *map(str, self.divergences)]
        ended = self.ending
        if ended is not None and ended.how == "raised" and self.divergences:
            lines.append(f"The program {ended}")
        return "\n".join(lines)


def _asks_otherwise(divergence: Divergence) -> bool:
    """Return whether a divergence is only in the arguments of a model call."""
    return divergence.kind == "changed" and divergence.call_kind == "llm"
