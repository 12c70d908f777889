"""Safe display of recorded data on terminals: clean text, display width, colour."""

import os
import re
import shlex
import shutil
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TextIO

DEFAULT_WIDTH: Final = 120
PIPE_WIDTH: Final = 240
MIN_WIDTH: Final = 40
ELLIPSIS: Final = "…"

_ESCAPE_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC: titles, links, clipboard
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]*(?:\x1b\\|\x9c)?"  # DCS and other strings
    r"|\x1b[ -/]*[0-~]?"
)
_ACTS_IN_JSON: Final = re.compile(
    "[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Non-ASCII controls, direction marks, invisible characters and lone surrogates."""
_SPACES: Final = re.compile(r"\s+")
# Controls, invisible formatting (bidi overrides can rewrite a line), lone surrogates, separators.
_UNSHOWABLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_WIDTHLESS: Final = frozenset({"Mn", "Me"})

_PLAIN: Final = str.maketrans({"·": "-", "“": '"', "”": '"', "…": "...", "→": "->"})

_COLOURS: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


@dataclass(frozen=True, slots=True)
class Terminal:
    """Capabilities of the output."""

    width: int = DEFAULT_WIDTH
    colour: bool = False
    unicode: bool = True

    @classmethod
    def of(cls, stream: TextIO) -> "Terminal":
        """Return the capabilities of a stream; colour only on a terminal and without NO_COLOR.

        A pipe or a file has no width, so lines may be long.
        """
        fallback = DEFAULT_WIDTH if stream.isatty() else PIPE_WIDTH
        return cls(
            width=max(MIN_WIDTH, shutil.get_terminal_size((fallback, 24)).columns),
            colour=stream.isatty() and not os.environ.get("NO_COLOR"),
            unicode=_can_encode(stream.encoding, "▶…"),
        )

    def paint(self, text: str, *styles: str) -> str:
        """Return the text in a colour, or unchanged without colour support."""
        if not self.colour or not styles:
            return text
        codes = ";".join(_COLOURS[style] for style in styles)
        return f"\x1b[{codes}m{text}\x1b[0m"

    def paint_failure(self, text: str, style: str | None) -> str:
        """Return the text of a step in red if that is the style of the step."""
        return self.paint(text, "red") if style == "red" else text

    def shown(self, text: str) -> str:
        """Return cleaned text with only the characters that this terminal supports.

        Call it before measuring: in ASCII, accents are removed and other characters take one
        column.
        """
        if self.unicode or text.isascii():
            return text
        # Normalise single characters: sorting many combining marks takes quadratic time.
        plain = "".join(
            c if c.isascii() else unicodedata.normalize("NFKD", c) for c in text.translate(_PLAIN)
        )
        return "".join(
            c if c.isascii() and c.isprintable() else "?"
            for c in plain
            if unicodedata.category(c) not in _WIDTHLESS
        )

    def rows(self, rows: Iterable[tuple[str, str]], label_width: int = 9) -> Iterator[str]:
        """Yield a line for each label and value, except for empty values."""
        for label, value in rows:
            if value:
                shown = self.fit(self.shown(clean(value)), self.width - label_width - 1)
                yield f"{self.paint(label.ljust(label_width), 'dim')} {shown}"

    def columns(
        self, name: str, text: str, room: int, *, least: int = 0, most: int
    ) -> tuple[str, str]:
        """Return a name, padded to `least` and cut to `most` columns, and a text cut to the rest."""
        name = self.fit(self.shown(name), most)
        name += " " * (least - display_width(name))
        return name, self.fit(self.shown(text), max(0, room - display_width(name)))

    def fit(self, text: str, width: int) -> str:
        """Return the text cut to a number of columns, with an ellipsis if shortened."""
        if display_width(text) <= width:
            return text
        mark = ELLIPSIS if self.unicode else "..."
        room = width - len(mark)
        used = 0
        for index, character in enumerate(text):
            used += _columns(character)
            if used > room:
                return text[:index].rstrip() + mark if room > 0 else ""
        return text


def clean(text: object) -> str:
    """Return recorded data as one line that cannot control the terminal or hide text.

    Recorded text comes from users and models: escape sequences, control characters, bidirectional
    overrides and lone surrogates are removed, line breaks become spaces.
    """
    plain = _SPACES.sub(" ", _ESCAPE_SEQUENCE.sub("", str(text)))
    if plain.isprintable():
        return plain.strip()
    shown = (c for c in plain if unicodedata.category(c) not in _UNSHOWABLE)
    return "".join(shown).strip()


def harmless_json(text: str) -> str:
    """Escape characters in JSON text that can control a terminal."""
    return _ACTS_IN_JSON.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def quoted(text: object) -> str:
    """Return recorded data quoted as one shell word."""
    return shlex.quote(clean(text))


def display_width(text: str) -> int:
    """Return the number of terminal columns of a cleaned text."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in _WIDTHLESS:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _can_encode(encoding: str | None, sample: str) -> bool:
    try:
        sample.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
