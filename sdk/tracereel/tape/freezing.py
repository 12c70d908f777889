"""Frozen time, random numbers and UUIDs for a re-execution.

Replacements for `time.time` and similar functions are installed once, for any number of concurrent
re-executions. Each call checks which re-execution its caller belongs to; other code gets the real
time and random UUIDs. Imported references (`from uuid import uuid4`) keep working after the last
one ends.

`time.monotonic` and `perf_counter` also drive event loops, locks and queues, which wait in real
time. So the standard library, event loops and tracereel always read the real clocks.
"""

import datetime as dt
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from tracereel.tape.loops import Clock
from tracereel.tape.patches import ReplayPatches
from tracereel.tape.thread_ownership import Members

_in_force: Final[list["Freeze"]] = []
_lock: Final = threading.Lock()
_patches: Final = ReplayPatches()
_DATETIME: Final[Any] = dt.datetime
_TIME, _TIME_NS, _LOCALTIME, _GMTIME = time.time, time.time_ns, time.localtime, time.gmtime
_CTIME, _ASCTIME, _STRFTIME = time.ctime, time.asctime, time.strftime
_MONOTONIC, _MONOTONIC_NS = time.monotonic, time.monotonic_ns
_COUNTER, _COUNTER_NS = time.perf_counter, time.perf_counter_ns
_UUID1, _UUID4 = uuid.uuid1, uuid.uuid4
PATIENCE: Final = 1.0
"""Seconds for which time may stand still; then it advances for polling programs."""


class Freeze:
    """Clock and UUIDs of one re-execution; its time begins when the recorded run began.

    The modules `random` and `numpy.random` are seeded for the whole process.
    """

    def __init__(self, clock: Clock, started: dt.datetime, seed: str, members: Members) -> None:
        self._begin = started.timestamp()
        self._clock = clock
        self._seed = seed
        self._members = members
        self._draw = random.Random(seed)  # noqa: S311 - must be reproducible
        self._steady = {real: real() for real in (_MONOTONIC, _MONOTONIC_NS, _COUNTER, _COUNTER_NS)}
        self._latest = 0.0
        self._reading = threading.Lock()

    def enter(self) -> None:
        """Activate the frozen time."""
        with _lock:
            if not _in_force:
                _put_in_place()
            _in_force.append(self)
        random.seed(self._seed)
        numbers: Any = sys.modules.get("numpy.random")
        if numbers is not None:
            numbers.seed(random.Random(self._seed).getrandbits(32))  # noqa: S311

    def leave(self) -> None:
        """Deactivate the frozen time."""
        with _lock:
            if self in _in_force:
                _in_force.remove(self)
                if not _in_force:
                    _patches.undo()

    def is_here(self) -> bool:
        """Return whether the calling code belongs to this re-execution."""
        return self._members.is_here()

    def now(self) -> float:
        """Return seconds since 1970 in the time of the run."""
        return self._begin + self._elapsed()

    def steady(self, real: Callable[[], Any]) -> float:
        """Return the value of a monotonic clock in seconds, continued from its real value."""
        return self._steady[real] + self._elapsed()

    def steady_ns(self, real: Callable[[], Any]) -> int:
        """Return the value of a monotonic clock in nanoseconds."""
        return int(self._steady[real]) + round(self._elapsed() * 1e9)

    def _elapsed(self) -> float:
        """Return seconds since the beginning of the run; never decreases."""
        with self._reading:
            patience = 0.0 if self._clock.has_real_timers else PATIENCE
            waited = max(0.0, self._clock.stands_since() - patience)
            self._latest = max(self._latest, self._clock.elapsed() + waited)
            return self._latest

    def uuid(self, version: int) -> uuid.UUID:
        """Return the next UUID of the run."""
        return uuid.UUID(int=self._draw.getrandbits(128), version=version)


def _here() -> Freeze | None:
    """Return the innermost active freeze that the calling code belongs to."""
    return next((each for each in reversed(_in_force) if each.is_here()), None)


def _time() -> float:
    found = _here()
    return found.now() if found is not None else _TIME()


def _time_ns() -> int:
    found = _here()
    return round(found.now() * 1e9) if found is not None else _TIME_NS()


def _localtime(seconds: float | None = None) -> time.struct_time:
    return _LOCALTIME(_time() if seconds is None else seconds)


def _gmtime(seconds: float | None = None) -> time.struct_time:
    return _GMTIME(_time() if seconds is None else seconds)


def _ctime(seconds: float | None = None) -> str:
    return _CTIME(_time() if seconds is None else seconds)


def _asctime(moment: Any = None) -> str:
    return _ASCTIME(_localtime() if moment is None else moment)


def _strftime(form: str, moment: Any = None) -> str:
    return _STRFTIME(form, _localtime() if moment is None else moment)


def _reader() -> Freeze | None:
    """Return `_here()`, or `None` if the calling module needs real time."""
    name = str(sys._getframe(2).f_globals.get("__name__"))  # noqa: SLF001 - the caller's caller
    return None if name.partition(".")[0] in _KEEP_REAL_TIME else _here()


def _monotonic() -> float:
    found = _reader()
    return found.steady(_MONOTONIC) if found is not None else _MONOTONIC()


def _monotonic_ns() -> int:
    found = _reader()
    return found.steady_ns(_MONOTONIC_NS) if found is not None else _MONOTONIC_NS()


def _counter() -> float:
    found = _reader()
    return found.steady(_COUNTER) if found is not None else _COUNTER()


def _counter_ns() -> int:
    found = _reader()
    return found.steady_ns(_COUNTER_NS) if found is not None else _COUNTER_NS()


def _uuid1(*given: Any, **named: Any) -> uuid.UUID:
    found = _here()
    return found.uuid(1) if found is not None else _UUID1(*given, **named)


def _uuid4() -> uuid.UUID:
    found = _here()
    return found.uuid(4) if found is not None else _UUID4()


class _Kind(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _DATETIME)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, _DATETIME)


class _Datetime(_DATETIME, metaclass=_Kind):  # type: ignore[misc]
    """`datetime` replacement with frozen time; its instances are ordinary datetimes."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _DATETIME(*args, **kwargs)

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return _DATETIME.fromtimestamp(_time(), tz)

    @classmethod
    def utcnow(cls) -> Any:
        return _DATETIME.fromtimestamp(_time(), dt.UTC).replace(tzinfo=None)

    @classmethod
    def today(cls) -> Any:
        return _DATETIME.fromtimestamp(_time())


_Datetime.__name__ = _Datetime.__qualname__ = "datetime"
_FROZEN: Final[dict[tuple[Any, str], Any]] = {
    (time, "time"): _time,
    (time, "time_ns"): _time_ns,
    (time, "localtime"): _localtime,
    (time, "gmtime"): _gmtime,
    (time, "ctime"): _ctime,
    (time, "asctime"): _asctime,
    (time, "strftime"): _strftime,
    (time, "monotonic"): _monotonic,
    (time, "monotonic_ns"): _monotonic_ns,
    (time, "perf_counter"): _counter,
    (time, "perf_counter_ns"): _counter_ns,
    (uuid, "uuid1"): _uuid1,
    (uuid, "uuid4"): _uuid4,
    (dt, "datetime"): _Datetime,
}
_UNTOUCHED: Final = frozenset({"tracereel", "datetime", "_datetime", *sys.stdlib_module_names}) | {
    "pydantic", "pydantic_core", "msgspec", "opentelemetry", "pytest", "_pytest", "hypothesis", "numpy"
}  # fmt: skip
"""Modules that compare classes or keep their own time."""
_KEEP_REAL_TIME: Final = _UNTOUCHED | {
    "anyio", "curio", "eventlet", "gevent", "tornado", "trio", "twisted", "uvloop"
}  # fmt: skip
"""The same, and event loops, which wait in real time."""


class _State:
    """Adapter that restores random state through attribute assignment."""

    _put: Any

    def __init__(self, put: Any) -> None:
        object.__setattr__(self, "_put", put)

    def __setattr__(self, _name: str, value: Any) -> None:
        self._put(value)


def _put_in_place() -> None:
    """Replace functions in their modules and wherever the program has imported them."""
    known = {id(getattr(owner, name)): value for (owner, name), value in _FROZEN.items()}
    for (owner, name), value in _FROZEN.items():
        _patches.put(owner, name, value)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _UNTOUCHED or module is None:
            continue
        for attribute, value in list(vars(module).items()):
            if (found := known.get(id(value))) is not None:
                _patches.put(module, attribute, found)
    _patches.restore_later(_State(random.setstate), "state", random.getstate())
    numbers: Any = sys.modules.get("numpy.random")
    if numbers is not None:
        _patches.restore_later(_State(numbers.set_state), "state", numbers.get_state())
