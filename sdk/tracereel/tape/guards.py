"""What a re-execution keeps its code from: the network, and, where asked, today's date.

The network is watched by an audit hook, which sees every socket that Python opens. A library that
brings its own (uvloop, gRPC), and another program that is started, is not seen. Code that does not belong
to the re-execution passes.
"""

import datetime as dt
import random
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self

from tracereel.tape.divergence import location
from tracereel.tape.loops import Clock
from tracereel.tape.members import Members
from tracereel.tape.patches import Patches

_EVENTS: Final = frozenset(
    {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}
    | {"socket.sendmsg"}
)


class NetworkBlockedError(BaseException):
    """The program wanted to use the network during a re-execution."""


class _Watch:
    """The one audit hook of the process: hooks cannot be taken away, so this one is switched."""

    def __init__(self) -> None:
        self.blocks: list[Network] = []
        self._installed = False

    def install(self) -> None:
        """Begin to watch."""
        if not self._installed:
            self._installed = True
            sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if self.blocks and event in _EVENTS:
            for block in list(self.blocks):
                block.check(event, args)


_watch: Final = _Watch()


class Network:
    """Keeps a re-execution from the network, except for hosts that are allowed."""

    def __init__(
        self,
        allowed: Iterable[str] | bool,
        *,
        members: Members,
        noted: Callable[[str, str | None], None],
    ) -> None:
        self._members = members
        self._all = allowed is True
        self._hosts = frozenset() if isinstance(allowed, bool) else frozenset(allowed)
        self._noted = noted

    def __enter__(self) -> Self:
        if not self._all:
            _watch.install()
            _watch.blocks.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self in _watch.blocks:
            _watch.blocks.remove(self)

    def check(self, event: str, args: tuple[Any, ...]) -> None:
        """Refuse what is not allowed."""
        if not self._members.is_here():
            return
        address = args[1] if event.startswith("socket.s") or event == "socket.connect" else args[0]
        host = str(address[0]) if isinstance(address, tuple) else str(address)
        if host in self._hosts or address is None:
            return
        self._noted(host, location())
        raise NetworkBlockedError(
            f"a replay does not use the network; it was asked for {host!r}."
            f" Put the call behind a traced tool, or allow it: allow_network=[{host!r}]"
        )


def freeze(
    patches: Patches, clock: Clock, started: dt.datetime, seed: str, members: Members
) -> None:
    """Time begins when the recorded run did; random numbers and UUIDs are the same in every replay.

    Others see the time of day and UUIDs of their own; the random numbers of the module `random` are those
    of the whole process.
    """
    begin = started.timestamp()
    real_time, real_ns, real_uuid1, real_uuid4 = time.time, time.time_ns, uuid.uuid1, uuid.uuid4
    draw = random.Random(seed)  # noqa: S311 - repeatable is what is wanted

    def now() -> float:
        return begin + clock.elapsed() if members.is_here() else real_time()

    def now_ns() -> int:
        return round(now() * 1e9) if members.is_here() else real_ns()

    def uuid4() -> uuid.UUID:
        here = members.is_here()
        return uuid.UUID(int=draw.getrandbits(128), version=4) if here else real_uuid4()

    def uuid1(*given: Any, **named: Any) -> uuid.UUID:
        here = members.is_here()
        return (
            uuid.UUID(int=draw.getrandbits(128), version=1) if here else real_uuid1(*given, **named)
        )

    for owner, name, value in (
        (time, "time", now),
        (time, "time_ns", now_ns),
        (uuid, "uuid4", uuid4),
        (uuid, "uuid1", uuid1),
    ):
        patches.put(owner, name, value)
    patches.restore_later(_State(), "state", random.getstate())
    random.seed(seed)
    _freeze_dates(patches, now)


class _State:
    """Puts the state of the random numbers back, as if it were an attribute."""

    def __setattr__(self, _name: str, value: Any) -> None:
        random.setstate(value)


def _freeze_dates(patches: Patches, now: Callable[[], float]) -> None:
    real: Any = dt.datetime

    class Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, real)

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, real)

    class Frozen(real, metaclass=Kind):  # type: ignore[misc]
        """`datetime` of the recorded day; what it makes are ordinary ones."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return real(*args, **kwargs)

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return real.fromtimestamp(now(), tz)

        @classmethod
        def utcnow(cls) -> Any:
            return real.fromtimestamp(now(), dt.UTC).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return real.fromtimestamp(now())

    Frozen.__name__ = Frozen.__qualname__ = "datetime"
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _UNTOUCHED or module is None:
            continue
        for attribute, value in list(vars(module).items()):
            if value is real:
                patches.put(module, attribute, Frozen)
    patches.put(dt, "datetime", Frozen)


_UNTOUCHED: Final = frozenset({"tracereel", "datetime", "_datetime", *sys.stdlib_module_names}) | {
    "pydantic", "pydantic_core", "msgspec", "opentelemetry", "pytest", "_pytest", "hypothesis", "numpy"
}  # fmt: skip
"""Modules that compare classes, or keep their own time."""
