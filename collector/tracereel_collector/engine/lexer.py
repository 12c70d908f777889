"""SQL text to tokens, by the rules of ClickHouse's own lexer; pure.

Only what the guard needs is told apart: words, quoted names, strings, single characters.
Comments and blanks are dropped.  Whatever is opened and not closed is a syntax error here, because
guessing where it ends is how a second statement slips through.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from tracereel_collector.engine.failures import SYNTAX_ERROR, QueryError


class Kind(Enum):
    WORD = "word"
    NAME = "name"
    STRING = "string"
    NUMBER = "number"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: bytes
    start: int
    end: int

    @property
    def word(self) -> str:
        """The word in upper case, empty when this is anything else."""
        return self.text.decode("ascii").upper() if self.kind is Kind.WORD else ""


# The engine takes # as a comment only before a blank or a !, and // like --.
_SKIP = re.compile(rb"(?:[ \t\n\r\x0b\x0c]++|--[^\n]*+|//[^\n]*+|#[ !][^\n]*+)+")
_TOKEN = re.compile(
    rb"(?P<string>'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'"
    rb"|\xe2\x80\x98.*?\xe2\x80\x99"
    rb"|\$(?P<tag>[A-Za-z0-9_]*+)\$.*?\$(?P=tag)\$)"
    rb"|(?P<name>`[^`\\]*+(?:(?:\\.|``)[^`\\]*+)*+`"
    rb'|"[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*+"'
    rb"|\xe2\x80\x9c.*?\xe2\x80\x9d)"
    rb"|(?P<word>[A-Za-z_$][A-Za-z0-9_$]*+)"
    rb"|(?P<number>[0-9][A-Za-z0-9_]*+)"
    rb"|(?P<sign>.)",
    re.DOTALL,
)
_KINDS = {kind.value: kind for kind in Kind}
_COMMENT_EDGE = re.compile(rb"/\*|\*/")
_OPENERS = {
    b"'": "a string",
    b"`": "a quoted name",
    b'"': "a quoted name",
    b"\xe2": "a quoted text",
}


def tokens(sql: bytes, *, start: int = 0) -> Iterator[Token]:
    """Tokens from `start` on; raises QueryError(62) where something is left open."""
    position, end = start, len(sql)
    while position < end:
        if blank := _SKIP.match(sql, position):
            position = blank.end()
            continue
        if sql.startswith(b"/*", position):
            position = _after_comment(sql, position)
            continue
        found = _TOKEN.match(sql, position)
        if found is None:  # pragma: no cover - the last alternative takes any byte
            raise QueryError(SYNTAX_ERROR, f"Syntax error: unreadable at position {position + 1}.")
        kind = _KINDS["string" if found.lastgroup == "tag" else str(found.lastgroup)]
        if kind is Kind.SIGN and found[0] in _OPENERS:
            what = _OPENERS[found[0]]
            raise QueryError(
                SYNTAX_ERROR, f"Syntax error: {what} at position {position + 1} is not closed."
            )
        yield Token(kind, found[0], position, found.end())
        position = found.end()


def _after_comment(sql: bytes, start: int) -> int:
    """Behind the matching */, counting the nested ones as the engine does."""
    depth, position = 0, start
    while edge := _COMMENT_EDGE.search(sql, position):
        depth += 1 if edge[0] == b"/*" else -1
        position = edge.end()
        if depth == 0:
            return position
    raise QueryError(
        SYNTAX_ERROR, f"Syntax error: the comment at position {start + 1} is not closed."
    )
