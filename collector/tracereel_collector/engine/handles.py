"""Bounded pool of chDB handles, each prepared for one database and one set of settings.

A handle keeps its `USE` and `SET` state, so a request with a matching handle runs no additional
statement. Settings that change with every request (an insert's token) are set on a pooled handle in
one statement and reset in one, after the response is sent.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import chdb

from tracereel_collector.engine.failures import QueryError, engine_errors

VOLATILE = frozenset(
    {
        "insert_deduplication_token",
        "format_schema",
        "format_schema_message_name",
        "format_schema_source",
        "log_comment",
    }
)
Key = tuple[str, frozenset[tuple[str, str]]]


class HandlePool:
    """Lends handles; closes the oldest idle one beyond the limit."""

    def __init__(self, location: str, *, base: Mapping[str, str], idle: int) -> None:
        self._location = location
        self._base = dict(base)
        self._idle_limit = idle
        self._lock = threading.Lock()
        self._idle: list[tuple[Key, Any]] = []
        """Handles that are not lent, the oldest first."""
        # This handle is never lent: chDB shuts the engine down when its last handle closes.
        self._keeper = _connect(location)

    def command(self, sql: str) -> bytes:
        """Run an internal statement on the kept handle; for start-up and health checks only."""
        with engine_errors():
            return bytes(self._keeper.query(sql, "TabSeparated").bytes() or b"")

    @contextmanager
    def lend(
        self, database: str, settings: Mapping[str, str], *, single_use: bool = False
    ) -> Iterator[Any]:
        """Lend a handle with exactly this database and these settings."""
        volatile = {name: settings[name] for name in settings if name in VOLATILE}
        # A readonly handle cannot reset settings: set all of them once and close it afterwards.
        single_use = single_use or (bool(volatile) and "readonly" in settings)
        lasting = {name: settings[name] for name in settings if single_use or name not in VOLATILE}
        key: Key = (database, frozenset(lasting.items()))
        handle = self._take(key) or self._open(database, lasting)
        clean = False
        try:
            if volatile and not single_use:
                _run(handle, f"SET {_assignments(volatile)}")
            yield handle
            clean = True
        finally:
            self._give_back(key, handle, volatile, keep=clean and not single_use)

    def close(self) -> None:
        """Close all idle handles, which ends the engine."""
        with self._lock:
            handles, self._idle = self._idle, []
        for _, handle in handles:
            handle.close()
        self._keeper.close()

    def _take(self, key: Key) -> Any | None:
        with self._lock:
            for index in reversed(range(len(self._idle))):
                if self._idle[index][0] == key:
                    return self._idle.pop(index)[1]
        return None

    def _open(self, database: str, settings: Mapping[str, str]) -> Any:
        handle = _connect(self._location)
        try:
            name = database.replace("\\", "\\\\").replace("`", "\\`")
            _run(handle, f"USE `{name}`")
            # readonly must be last: it forbids further changes of settings.
            ordered = sorted({**self._base, **settings}.items(), key=lambda s: s[0] == "readonly")
            _run(handle, f"SET {_assignments(dict(ordered))}")
        except BaseException:
            handle.close()
            raise
        return handle

    def _give_back(self, key: Key, handle: Any, volatile: Mapping[str, str], *, keep: bool) -> None:
        try:
            if keep and volatile:
                _run(handle, f"SET {', '.join(f'{name} = DEFAULT' for name in volatile)}")
        except QueryError:
            keep = False  # a handle we cannot clean is closed, never lent again
        if not keep:
            handle.close()
            return
        with self._lock:
            self._idle.append((key, handle))
            surplus = self._idle.pop(0)[1] if len(self._idle) > self._idle_limit else None
        if surplus is not None:
            surplus.close()


def _run(handle: Any, sql: str) -> None:
    with engine_errors():
        handle.query(sql, "TabSeparated")


def _connect(location: str) -> Any:
    with engine_errors():
        return chdb.connect(location)  # type: ignore[no-untyped-call]


def _assignments(settings: Mapping[str, str]) -> str:
    quoted = {
        name: value.replace("\\", "\\\\").replace("'", "\\'") for name, value in settings.items()
    }
    return ", ".join(f"{name} = '{value}'" for name, value in quoted.items())
