"""Rows whose final behaviour is not here yet, with the item of issue 19 that brings it.

Each is a strict expected failure. Delete an entry when its row passes, then run `make docs`.
"""

_ROWS_BY_ITEM: dict[int, tuple[str, ...]] = {
    9: ("004.167",),
    13: ("000.28", "000.29", "000.30", "000.31", "000.34", "000.48", "001.72"),
    14: ("000.73", "000.75", "001.57"),
    17: ("002.10", "002.14", "002.19", "002.21", "002.22"),
    18: ("001.81",),
}

PENDING: dict[str, int] = {row: item for item, rows in _ROWS_BY_ITEM.items() for row in rows}
