"""Tables that fit the terminal: unimportant columns are left out, wide ones are narrowed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tracereel.cli.terminal import Terminal, clean, display_width

_GAP: Final = "  "


@dataclass(frozen=True, slots=True)
class TableColumn:
    """Column with its title and its behaviour if space is short."""

    title: str
    right: bool = False
    least: int = 6
    """Minimum width."""
    needed: int = 1
    """Priority: columns with the lowest are left out first; 9 always stays."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Text and its styles."""

    text: str
    styles: tuple[str, ...] = ()


def table(
    columns: Sequence[TableColumn],
    rows: Iterable[Sequence[Cell | str]],
    terminal: Terminal,
    *,
    empty: str = "",
) -> Iterator[str]:
    """Yield the lines of a table with a header, fitted to the terminal; `empty` without rows."""
    rows = list(rows)
    if empty and not rows:
        yield empty
        return
    cells = [[_shown(cell, terminal) for cell in row] for row in rows]
    kept = _kept(columns, cells, terminal.width)
    widths = _widths(
        [columns[at] for at in kept], [[r[at] for at in kept] for r in cells], terminal
    )
    titles = [Cell(columns[at].title, ("dim",)) for at in kept]
    for row in [titles, *([r[at] for at in kept] for r in cells)]:
        parts = []
        for at, cell, width in zip(kept, row, widths, strict=True):
            text = terminal.fit(cell.text, width)
            padding = " " * (width - display_width(text))
            painted = terminal.paint(text, *cell.styles)
            parts.append(padding + painted if columns[at].right else painted + padding)
        yield _GAP.join(parts).rstrip()


def _shown(cell: Cell | str, terminal: Terminal) -> Cell:
    made = Cell(cell) if isinstance(cell, str) else cell
    return Cell(terminal.shown(clean(made.text)), made.styles)


def _kept(columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], width: int) -> list[int]:
    """Return the columns to show: those with any text that fit."""
    kept = [
        at
        for at, column in enumerate(columns)
        if column.needed >= 9 or any(row[at].text for row in rows)
    ]

    def least() -> int:
        return sum(min(columns[at].least, _natural(columns, rows, at)) for at in kept) + (
            len(_GAP) * (len(kept) - 1)
        )

    while len(kept) > 1 and least() > width:
        weakest = min(kept, key=lambda at: (columns[at].needed, -at))
        if columns[weakest].needed >= 9:
            break
        kept.remove(weakest)
    return kept


def _natural(columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], at: int) -> int:
    return max([len(columns[at].title), *(display_width(row[at].text) for row in rows)])


def _widths(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], terminal: Terminal
) -> list[int]:
    widths = [_natural(columns, rows, at) for at in range(len(columns))]
    room = terminal.width - len(_GAP) * (len(columns) - 1)
    while (over := sum(widths) - room) > 0:
        loose = [at for at, width in enumerate(widths) if width > columns[at].least]
        if not loose:
            # All columns are at their minimum: shrink them further, down to one character.
            loose = [at for at, width in enumerate(widths) if width > 1]
            if not loose:
                break
        widest = max(loose, key=lambda at: widths[at])
        widths[widest] -= max(1, min(over, widths[widest] // 4))
    return widths
