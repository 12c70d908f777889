"""Temporary attribute replacements."""

from typing import Any


class ReplayPatches:
    """Stack of replaced attributes."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute."""
        self.restore_later(owner, name, getattr(owner, name))
        setattr(owner, name, value)

    def restore_later(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute to this value on `undo`."""
        self._undo.append((owner, name, value))

    def undo(self) -> None:
        """Restore all attributes, the last one first."""
        while self._undo:
            owner, name, value = self._undo.pop()
            setattr(owner, name, value)
