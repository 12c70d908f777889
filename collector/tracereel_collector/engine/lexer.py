"""SQL lexer with the rules of ClickHouse's lexer; pure.

It distinguishes only these tokens, which the guard needs: words, quoted names, strings, single characters.
Comments and blanks are dropped. Unclosed quotes and comments are syntax errors: guessing their end
could let a second statement pass.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from tracereel_collector.engine.failures import syntax_error


class TokenKind(Enum):
    """Kinds of tokens."""

    WORD = "word"
    NAME = "name"
    STRING = "string"
    NUMBER = "number"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    """Token and its place in the text."""

    kind: TokenKind
    text: bytes
    start: int
    end: int

    @property
    def word(self) -> str:
        """The word in upper case; empty for other kinds of token."""
        return self.text.decode("ascii").upper() if self.kind is TokenKind.WORD else ""


# ClickHouse treats # as a comment only before a blank or !, and // like --.
_SKIP = re.compile(rb"(?:[ \t\n\r\x0b\x0c]++|--[^\n]*+|//[^\n]*+|#[ !][^\n]*+)+")
_TOKEN = re.compile(
    rb"(?P<string>'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'"
    rb"|\xe2\x80\x98.*?\xe2\x80\x99)"
    rb"|(?P<name>`[^`\\]*+(?:(?:\\.|``)[^`\\]*+)*+`"
    rb'|"[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*+"'
    rb"|\xe2\x80\x9c.*?\xe2\x80\x9d)"
    rb"|(?P<word>[A-Za-z_$][A-Za-z0-9_$]*+)"
    rb"|(?P<number>[0-9][A-Za-z0-9_]*+)"
    rb"|(?P<sign>.)",
    re.DOTALL,
)
_TAG = re.compile(rb"\$[A-Za-z0-9_]*+(?=\$)")
_KINDS = {kind.value: kind for kind in TokenKind}
_COMMENT_EDGE = re.compile(rb"/\*|\*/")
_OPENERS = {
    b"'": "a string",
    b"`": "a quoted name",
    b'"': "a quoted name",
    b"\xe2": "a quoted text",
}


def tokens(sql: bytes, *, start: int = 0) -> Iterator[Token]:
    """Yield tokens from `start` on; raise QueryError(62) for an unclosed quote or comment."""
    position, end = start, len(sql)
    last_tags: dict[bytes, int] | None = None
    while position < end:
        if blank := _SKIP.match(sql, position):
            position = blank.end()
            continue
        if sql.startswith(b"/*", position):
            position = _after_comment(sql, position)
            continue
        if tag := _TAG.match(sql, position):
            if last_tags is None:
                last_tags = _last_tags(sql)
            closing = tag.end() + 1
            if last_tags[tag[0]] >= closing:
                after = sql.index(tag[0] + b"$", closing) + len(tag[0]) + 1
                yield Token(TokenKind.STRING, sql[position:after], position, after)
                position = after
                continue
        found = _TOKEN.match(sql, position)
        assert found is not None  # noqa: S101 - the last alternative takes any byte
        kind = _KINDS[str(found.lastgroup)]
        if kind is TokenKind.SIGN and found[0] in _OPENERS:
            what = _OPENERS[found[0]]
            raise syntax_error(f"Syntax error: {what} at position {position + 1} is not closed.")
        yield Token(kind, found[0], position, found.end())
        position = found.end()


def _last_tags(sql: bytes) -> dict[bytes, int]:
    """Return the last position of each `$tag$`: searching for each end would be quadratic."""
    return {tag[0]: tag.start() for tag in _TAG.finditer(sql)}


def _after_comment(sql: bytes, start: int) -> int:
    """Return the position after the matching */, with nesting as in ClickHouse."""
    depth, position = 0, start
    while edge := _COMMENT_EDGE.search(sql, position):
        depth += 1 if edge[0] == b"/*" else -1
        position = edge.end()
        if depth == 0:
            return position
    raise syntax_error(f"Syntax error: the comment at position {start + 1} is not closed.")
