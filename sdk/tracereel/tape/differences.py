"""Readable differences between two values; long texts are cut around the difference."""

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any, Final

from tracereel.tape import codec, payloads
from tracereel.tape.codec import TAG

MAX_DIFFERENCES: Final = 20
_SHOWN: Final = 160
_BEFORE: Final = 40
"""Characters shown before the difference in a long text."""
_LINE: Final = 100
_AS_THEY_ARE: Final = ("numpy", "bytes", "bytearray", "datetime", "time")


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """One place where two values differ; `None` if the value is absent on that side."""

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
        """Return the difference as one line, or as several if it is long."""
        whole = str(self)
        if len(whole) <= _LINE or self.recorded is None or self.now is None:
            return [whole]
        return [f"{self.where}:", f"  was {self.recorded}", f"  now {self.now}"]


_NEW_IN_EVERY_RUN: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:"
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
    r"|(?:uuid|datetime)\([^()]+\)"
    r"|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|1[5-9]\d{8}(?:\.\d+|\d{3}|\d{9})?"
    r")(?![0-9A-Za-z])"
)


def is_new_in_every_run(difference: ValueDifference) -> bool:
    """Return whether two values differ only in ids and times."""
    if difference.recorded is None or difference.now is None:
        return False
    recorded, now = (
        _NEW_IN_EVERY_RUN.sub("#", each) for each in (difference.recorded, difference.now)
    )
    return recorded == now and "#" in recorded


def differences(recorded: Any, now: Any) -> tuple[ValueDifference, ...]:
    """Return the first differences between two values."""
    found: list[ValueDifference] = []
    _compare("", recorded, now, found)
    return tuple(found)


def ends_alike(how: str, now: Any, recorded: Any) -> bool:
    """Return whether a run returned or raised the same as on the tape."""
    if payloads.same(now, recorded):
        return True
    if how == "cancelled":
        return True  # the cause is outside of the run
    if how != "raised" or not isinstance(now, dict) or not isinstance(recorded, dict):
        return False
    # Of an exception, the class, arguments, text and plain attributes count, but not its causes.
    return all(now.get(key) == recorded.get(key) for key in ("c", "args", "text")) and (
        payloads.same(*map(_attributes, (now, recorded)))
    )


def _attributes(exception: dict[str, Any]) -> dict[str, Any]:
    """Return the plain attributes of an exception, without ids and times, which are new in every run."""
    found = exception.get("attributes")
    return {
        name: _NEW_IN_EVERY_RUN.sub("#", value) if type(value) is str else value
        for name, value in (found if type(found) is dict else {}).items()
        if type(value) in (str, int, bool)
    }


def comparable(one: Any, other: Any) -> tuple[Any, Any]:
    """Return two values without the attributes of opaque objects that only one of them has.

    A replay serves a placeholder for an object that is not on the tape.
    """
    if type(one) is list and type(other) is list and len(one) == len(other):
        pairs = [comparable(*each) for each in zip(one, other, strict=True)]
        return [each[0] for each in pairs], [each[1] for each in pairs]
    if type(one) is not dict or type(other) is not dict:
        return one, other
    if one.get(TAG) == "opaque" and (codec.STATE in one) != (codec.STATE in other):
        one, other = ({k: v for k, v in each.items() if k != codec.STATE} for each in (one, other))
    fields = {key: comparable(one[key], other[key]) for key in one if key in other}
    return (
        {key: fields[key][0] if key in fields else item for key, item in one.items()},
        {key: fields[key][1] if key in fields else item for key, item in other.items()},
    )


def _compare(where: str, old: Any, new: Any, found: list[ValueDifference]) -> None:
    if len(found) >= MAX_DIFFERENCES or payloads.same(old, new):
        return
    inside = _inside(old), _inside(new)
    if inside[0] is not None and inside[1] is not None and _class(old) == _class(new):
        old, new = inside
    if isinstance(old, dict) and isinstance(new, dict) and TAG not in old and TAG not in new:
        for key in [*old, *(key for key in new if key not in old)]:
            if len(found) < MAX_DIFFERENCES:
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
        found.append(ValueDifference(place, _excerpt(old, at), _excerpt(new, at)))
    else:
        found.append(ValueDifference(where or "value", shown(old), shown(new)))


def _inside(data: Any) -> Any:
    """Return the parts of an object to compare, or `None` to compare it whole."""
    tag = data.get(TAG) if isinstance(data, dict) else None
    if tag in ("dataclass", "model", "record"):
        more = {key: item for key, item in data.items() if key not in (TAG, "c", "v")}
        return {**data["v"], **more} if isinstance(data["v"], dict) else None
    if tag in ("tuple", "deque", "namedtuple", "namespace"):
        return data["v"]
    if tag in ("map", "OrderedDict", "Counter", "defaultdict"):
        return {_text(key): item for key, item in data["v"]}
    if tag == "opaque" and codec.STATE in data:
        return data[codec.STATE]
    if tag == "exception":
        return {key: item for key, item in data.items() if key != TAG}
    return None


def _class(data: Any) -> tuple[Any, Any]:
    return data.get(TAG), data.get("c", data.get("type"))


def _compare_items(where: str, old: Any, new: Any, key: Any, found: list[ValueDifference]) -> None:
    if key not in old:
        found.append(ValueDifference(where, None, shown(new[key])))
    elif key not in new:
        found.append(ValueDifference(where, shown(old[key]), None))
    else:
        _compare(where, old[key], new[key], found)


def _excerpt(text: str, at: int) -> str:
    """Return a long text cut around a position."""
    begin = max(0, at - _BEFORE)
    end = begin + _SHOWN
    before, after = "…" if begin else "", "…" if end < len(text) else ""
    return payloads.text_of(f"{before}{text[begin:end]}{after}")


def shown(data: Any) -> str:
    """Return data as a short text."""
    text = _text(data)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def shown_call(name: str, arguments: Any) -> str:
    """Return a call as short source code."""
    given = arguments if isinstance(arguments, dict) else {}
    inside = ", ".join(f"{key}={_text(value)}" for key, value in given.items())
    return f"{name}({inside if len(inside) <= _SHOWN else inside[:_SHOWN] + '…'})"


def _text(data: Any) -> str:
    """Return plain data as JSON and objects as source code."""
    whole = payloads.text_of(data)
    return whole if f'"{TAG}":' not in whole else _written(data)


def _written(data: Any) -> str:
    if type(data) is list:
        return f"[{', '.join(map(_written, data))}]"
    if type(data) is not dict:
        return payloads.text_of(data)
    if TAG not in data:
        pairs = (f"{payloads.text_of(key)}: {_written(item)}" for key, item in data.items())
        return f"{{{', '.join(pairs)}}}"
    return _object(str(data[TAG]), data)


def _as_it_is(data: dict[str, Any]) -> str:
    """Return the `repr` of a value whose encoded form is hard to read."""
    try:
        value = codec.decode(data)
    except codec.UndecodableError:
        return payloads.text_of(data)
    if isinstance(value, (dt.datetime, dt.time)):
        return f'{data[TAG]}("{value.isoformat()}")'
    return " ".join(repr(value).split())


def _object(tag: str, data: dict[str, Any]) -> str:
    name, value = str(data.get("c", tag)).rpartition(":")[2], data.get("v")
    if tag in ("dataclass", "model", "record") and isinstance(value, dict):
        fields = ", ".join(f"{key}={_written(item)}" for key, item in value.items())
        missing = f" (the class {data.get('c')} is not loaded here)" if tag == "record" else ""
        return f"{name}({fields}){missing}"
    if tag == "exception":
        return f"{name}({', '.join(map(_written, data.get('args', ())))})"
    if tag == "enum":
        return f"{name}.{data.get('n')}"
    if tag == "opaque":
        return f"<{data.get('type')}: {data.get('reason')}>"
    if tag in _AS_THEY_ARE:
        return _as_it_is(data)
    if isinstance(value, list):
        return f"{name}({', '.join(map(_written, value))})"
    if value is not None:
        return f"{name}({_written(value)})"
    rest = {key: item for key, item in data.items() if key not in (TAG, "c")}
    return f"{name}({payloads.text_of(rest)})"
