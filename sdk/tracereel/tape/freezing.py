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
from contextlib import ExitStack
from typing import Any, Final

from tracereel.tape.loops import Clock
from tracereel.tape.thread_ownership import Members

_in_force: Final[list["Freeze"]] = []
_lock: Final = threading.Lock()
_undo: Final = ExitStack()
"""Restores the replaced functions."""
_DATETIME: Final[Any] = dt.datetime
_STEADY: Final = (time.monotonic, time.monotonic_ns, time.perf_counter, time.perf_counter_ns)
PATIENCE: Final = 1.0
"""Seconds for which time may stand still; then it advances for polling programs.

They do not count before the first reading of the run: until then a program may be imported.
"""


class Freeze:
    """Clock and UUIDs of one re-execution; its time begins when the recorded run began.

    The modules `random` and `numpy.random` are seeded for the whole process.
    """

    def __init__(self, clock: Clock, started: dt.datetime, seed: str, members: Members) -> None:
        self._begin = started.timestamp()
        self._clock = clock
        self._seed = seed
        self.members = members
        self._draw = random.Random(seed)  # noqa: S311 - must be reproducible
        self._steady: dict[Any, float] = {real: real() for real in _STEADY}
        self._latest = 0.0
        self._run_began: float | None = None
        """Reading at which the run began; code before it may have slept or polled."""
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
                    _undo.close()

    def now(self) -> float:
        """Return seconds since 1970 in the time of the run."""
        return self._begin + self._elapsed() - (self._run_began or 0.0)

    def steady(self, real: Callable[[], Any]) -> float:
        """Return the value of a monotonic clock, continued from its real value."""
        begin = self._steady[real]
        if isinstance(begin, int):
            return begin + round(self._elapsed() * 1e9)  # one of the clocks in nanoseconds
        return begin + self._elapsed()

    def _elapsed(self) -> float:
        """Return seconds since the beginning of the re-execution; never decreases."""
        with self._reading:
            if self._run_began is None and (began := self._clock.run_began) is not None:
                self._run_began = max(self._latest, began)
            patience = 0.0 if self._clock.has_real_timers else PATIENCE
            waited = max(0.0, self._clock.stands_since() - patience)
            in_run = self._clock.in_run() + waited
            self._latest = max(self._latest, (self._run_began or 0.0) + in_run)
            return self._latest

    def uuid(self, version: int) -> uuid.UUID:
        """Return the next UUID of the run."""
        return uuid.UUID(int=self._draw.getrandbits(128), version=version)


def _here() -> Freeze | None:
    """Return the innermost active freeze that the calling code belongs to."""
    return next((each for each in reversed(_in_force) if each.members.is_here()), None)


def _frozen(real: Callable[..., Any], read: Callable[[Freeze], Any]) -> Callable[..., Any]:
    """Return a function that reads from the caller's freeze, if it belongs to one."""

    def read_or_call(*args: Any, **kwargs: Any) -> Any:
        found = _here()
        return read(found) if found is not None else real(*args, **kwargs)

    return read_or_call


_time: Final = _frozen(time.time, Freeze.now)


def _of_now(real: Callable[..., Any], now: Callable[[], Any], given: int = 0) -> Callable[..., Any]:
    """Return a time function whose optional argument, after `given` others, defaults to `now`."""

    def convert(*args: Any) -> Any:
        rest = args[given:]
        return real(*args) if rest and rest[0] is not None else real(*args[:given], now())

    return convert


_localtime: Final = _of_now(time.localtime, _time)


def _steady(real: Callable[[], Any]) -> Callable[[], Any]:
    """Return a monotonic clock; modules that wait in real time get the real one."""

    def read() -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__"))  # noqa: SLF001 - documented
        found = None if caller.partition(".")[0] in _KEEP_REAL_TIME else _here()
        return found.steady(real) if found is not None else real()

    return read


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
    (time, "time_ns"): _frozen(time.time_ns, lambda freeze: round(freeze.now() * 1e9)),
    (time, "localtime"): _localtime,
    (time, "gmtime"): _of_now(time.gmtime, _time),
    (time, "ctime"): _of_now(time.ctime, _time),
    (time, "asctime"): _of_now(time.asctime, _localtime),
    (time, "strftime"): _of_now(time.strftime, _localtime, 1),
    (uuid, "uuid1"): _frozen(uuid.uuid1, lambda freeze: freeze.uuid(1)),
    (uuid, "uuid4"): _frozen(uuid.uuid4, lambda freeze: freeze.uuid(4)),
    (dt, "datetime"): _Datetime,
} | {(time, real.__name__): _steady(real) for real in _STEADY}
_UNTOUCHED: Final = frozenset({"tracereel", "datetime", "_datetime", *sys.stdlib_module_names}) | {
    "pydantic", "pydantic_core", "msgspec", "opentelemetry", "pytest", "_pytest", "hypothesis", "numpy"
}  # fmt: skip
"""Modules that compare classes or keep their own time."""
_KEEP_REAL_TIME: Final = _UNTOUCHED | {
    "anyio", "curio", "eventlet", "gevent", "tornado", "trio", "twisted", "uvloop"
}  # fmt: skip
"""The same, and event loops, which wait in real time."""


def _replace(owner: Any, name: str, value: Any) -> None:
    _undo.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


def _put_in_place() -> None:
    """Replace functions in their modules and in every module that has imported them."""
    known = {id(getattr(owner, name)): value for (owner, name), value in _FROZEN.items()}
    for (owner, name), value in _FROZEN.items():
        _replace(owner, name, value)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _UNTOUCHED or module is None:
            continue
        for attribute, value in list(vars(module).items()):
            if (found := known.get(id(value))) is not None:
                _replace(module, attribute, found)
    _undo.callback(random.setstate, random.getstate())
    numbers: Any = sys.modules.get("numpy.random")
    if numbers is not None:
        _undo.callback(numbers.set_state, numbers.get_state())
