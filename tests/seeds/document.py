"""Text of `docs/seeds.md`, made from the rows."""

from tests.seeds.rows import Row, Seed, all_rows, seeds, words

INTRODUCTION = """\
# Seeds

tracereel began with five documents (*seeds*) and a design card: the event contract of agents (004),
the normalisation of results (000), an agent backend (001), an SSE agent (002), provider streams (003).
This page lists what they ask for, row by row, and where tracereel differs.

The rows are data in `tests/seeds/data/`; `tests/seeds/` tests each against the public API:

```sh
.venv/bin/python -m pytest tests/seeds -k "004.30"   # one row
.venv/bin/python -m pytest tests/seeds               # all; the summary has the count
```

This page is generated: `make docs`.
"""
STATES = {"works": "✓", "deviates": "[deviates](#deviations)", "out of scope": "out of scope"}


def document() -> str:
    """Return the whole page."""
    parts = [
        INTRODUCTION,
        _counts(),
        _words(),
        _deviations(),
        _out_of_scope(),
        _conflicts(),
        *(_rows_of(seed) for seed in seeds()),
    ]
    return "\n".join(parts)


def _table(head: str, rows: list[tuple[str, ...]]) -> str:
    columns = head.count("|") + 1
    lines = [f"| {head} |", "|---" * columns + "|"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _state(row: Row) -> str:
    return STATES[row.status]


def _counts() -> str:
    rows = []
    for seed in seeds():
        states = [_state(row) for row in seed.rows]
        named = ("✓", STATES["deviates"], "out of scope")
        counts = [str(states.count(state)) for state in named]
        rows.append((seed.name, seed.title, str(len(seed.rows)), *counts))
    total = [sum(int(row[column]) for row in rows) for column in range(2, 6)]
    rows.append(("", "all", *map(str, total)))
    head = "seed | about | rows | work | deviate | out of scope"
    return _table(head, rows)


def _words() -> str:
    rows = [
        (entry["seed"], entry["ours"], f"[{entry['see'].partition('#')[0]}]({entry['see']})")
        for entry in words()["word"]
    ]
    return "## Words of the seeds\n\n" + _table("seed | tracereel | documentation", rows)


def _deviations() -> str:
    rows = [
        (row.id, f"{_context(row)}{row.holds}", row.ours, row.why)
        for row in all_rows()
        if row.status == "deviates"
    ]
    return "## Deviations\n\n" + _table("row | seed | tracereel | why", rows)


def _context(row: Row) -> str:
    """Return the group of a row whose sentence does not name it."""
    return "" if row.id.startswith(("004", "card")) else f"{row.group}: "


def _out_of_scope() -> str:
    rows = [(row.id, row.holds, row.why) for row in all_rows() if row.status == "out of scope"]
    return "## Out of scope\n\n" + _table("row | seed | why", rows)


def _conflicts() -> str:
    rows = [
        (entry["about"], entry["seeds"], entry["won"], entry["why"])
        for entry in words()["conflict"]
    ]
    head = "about | seeds | followed | why"
    return "## Conflicts between seeds\n\n" + _table(head, rows)


def _rows_of(seed: Seed) -> str:
    rows = [(row.id, row.group, row.holds, _state(row)) for row in seed.rows]
    name = f"Seed {seed.name}" if seed.name.isdigit() else "Card"
    return f"## {name}: {seed.title}\n\n" + _table("row | about | what must hold | state", rows)
