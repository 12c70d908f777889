"""Where two pieces of data differ, said so that a person sees it: long texts are cut around the place."""

from dataclasses import dataclass
from typing import Any, Final

from tracereel.tape import payloads
from tracereel.tape.codec import TAG

MAX_DIFFERENCES: Final = 20
_SHOWN: Final = 160
_BEFORE: Final = 40
"""Characters of a long text that are shown before the place where it differs."""
_LINE: Final = 100


@dataclass(frozen=True, slots=True)
class Difference:
    """One place of the arguments where they differ; null where there is nothing."""

    where: str
    recorded: str | None
    now: str | None

    def __str__(self) -> str:
        if self.recorded is None:
            return f"{self.where}: {self.now} is new"
        if self.now is None:
            return f"{self.where}: {self.recorded} is gone"
        return f"{self.where}: {self.recorded} → {self.now}"

    def lines(self) -> list[str]:
        """The same on as many lines as are good to read."""
        whole = str(self)
        if len(whole) <= _LINE or self.recorded is None or self.now is None:
            return [whole]
        return [f"{self.where}:", f"  was {self.recorded}", f"  now {self.now}"]


def differences(recorded: Any, now: Any) -> tuple[Difference, ...]:
    """Where two pieces of data differ, the first few places."""
    found: list[Difference] = []
    _compare("", recorded, now, found)
    return tuple(found)


def _compare(where: str, old: Any, new: Any, found: list[Difference]) -> None:
    if (old == new and type(old) is type(new)) or len(found) >= MAX_DIFFERENCES:
        return
    if isinstance(old, dict) and isinstance(new, dict) and old.get(TAG) == new.get(TAG):
        for key in [*old, *(key for key in new if key not in old)]:
            if key != TAG and len(found) < MAX_DIFFERENCES:
                inner = f"{where}.{key}" if where else str(key)
                _compare_items(inner, old, new, key, found)
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            if len(found) < MAX_DIFFERENCES:
                _compare_items(
                    f"{where}[{index}]", dict(enumerate(old)), dict(enumerate(new)), index, found
                )
    elif isinstance(old, str) and isinstance(new, str) and max(len(old), len(new)) > _SHOWN:
        at = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), None)
        at = min(len(old), len(new)) if at is None else at
        place = f"{where or 'value'}, from character {at + 1} on"
        found.append(Difference(place, _excerpt(old, at), _excerpt(new, at)))
    else:
        found.append(Difference(where or "value", shown(old), shown(new)))


def _compare_items(where: str, old: Any, new: Any, key: Any, found: list[Difference]) -> None:
    if key not in old:
        found.append(Difference(where, None, shown(new[key])))
    elif key not in new:
        found.append(Difference(where, shown(old[key]), None))
    else:
        _compare(where, old[key], new[key], found)


def _excerpt(text: str, at: int) -> str:
    """A long text around the place that matters."""
    begin = max(0, at - _BEFORE)
    end = begin + _SHOWN
    before, after = "…" if begin else "", "…" if end < len(text) else ""
    return payloads.text_of(f"{before}{text[begin:end]}{after}")


def shown(data: Any) -> str:
    """Data as a short text."""
    text = payloads.text_of(data)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def shown_call(name: str, arguments: Any) -> str:
    """A call as a program would write it, in short."""
    given = arguments if isinstance(arguments, dict) else {}
    inside = ", ".join(f"{key}={payloads.text_of(value)}" for key, value in given.items())
    return f"{name}({inside if len(inside) <= _SHOWN else inside[:_SHOWN] + '…'})"
