"""Names that are replaced for a while, and put back."""

from typing import Any


class Patches:
    """What was replaced, in order."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Replace an attribute."""
        self.restore_later(owner, name, getattr(owner, name))
        setattr(owner, name, value)

    def restore_later(self, owner: Any, name: str, value: Any) -> None:
        """Have an attribute set in the end, whatever it is now."""
        self._undo.append((owner, name, value))

    def undo(self) -> None:
        """Restore everything, the last first."""
        while self._undo:
            owner, name, value = self._undo.pop()
            setattr(owner, name, value)
