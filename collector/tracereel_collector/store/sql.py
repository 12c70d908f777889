"""Loader of the `.sql` files: named queries, and migrations as numbered lists of statements."""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from string import Template

from tracereel_collector.store import (
    event_lines,
    otlp_signals,
    price_sql,
    rollup_agents,
    rollups,
)
from tracereel_collector.store.dialects import columns, content_sql, own
from tracereel_collector.store.dialects.own import SHORT_VALUE
from tracereel_collector.store.layout import SERVER, Layout

CONTENT_CODEC = (
    "CODEC(ZSTD(3, 24))"
    " SETTINGS (min_compress_block_size = 16777216, max_compress_block_size = 16777216)"
)
"""Codec of a column with content: blocks as large as the window in which repetition is found."""

INLINE_CONTENT = 4_096
"""Maximum bytes of all attributes of a span whose long values stay among them."""

_VALUES = {
    **event_lines.FRAGMENTS,
    **otlp_signals.FRAGMENTS,
    **columns.FRAGMENTS,
    **content_sql.FRAGMENTS,
    **own.FRAGMENTS,
    **price_sql.FRAGMENTS,
    **rollup_agents.FRAGMENTS,
    **rollups.FRAGMENTS,
    "content_codec": CONTENT_CODEC,
    "inline_content": INLINE_CONTENT,
    "short_value": SHORT_VALUE,
    "max_unix_nano": "9223372036854775807",
}


@dataclass(frozen=True, slots=True)
class Migration:
    """Numbered file of the schema."""

    number: int
    name: str
    checksum: str
    statements: tuple[str, ...]


def migrations(folder: Traversable | None = None, *, layout: Layout = SERVER) -> list[Migration]:
    """Return the migrations of a folder in order; default: those of this package."""
    values = {
        **_VALUES,
        **layout.values(),
        **rollups.view_bodies(layout.suffix),
        **rollup_agents.view_bodies(layout.suffix),
    }
    folder = folder or resources.files(__package__).joinpath("schema")
    found = []
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        number, _, name = file.name.removesuffix(".sql").partition("_")
        text = Template(file.read_text(encoding="utf-8")).substitute(values)
        statements = tuple(
            part.strip() for part in re.split(r";\s*\n", text + "\n") if without_comments(part)
        )
        checksum = hashlib.sha256(text.encode()).hexdigest()[:16]
        found.append(Migration(int(number), name, checksum, statements))
    return found


@cache
def query(name: str) -> str:
    """Return a query by the name of its file in `queries/`, without comment lines.

    Driver and engine scan a statement at every call; a semicolon in a comment makes the driver
    parse it word by word.
    """
    file = resources.files(__package__).joinpath("queries", f"{name}.sql")
    return without_comments(file.read_text(encoding="utf-8")) + "\n"


def without_comments(text: str) -> str:
    """Return SQL without comment lines."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return "\n".join(lines).strip()
