"""Checks of the names in a statement's tokens; pure.

`EXPLAIN AST` omits some parts: the operand of `(expr).*`, names of CTEs and windows, and targets of
REPLACE. So every name is checked where it is written, whatever it refers to.
"""

from typing import Final

from tracereel_collector.engine.lexer import Token, TokenKind
from tracereel_collector.errors import ForbiddenError
from tracereel_collector.query.user_sql.catalogue import Catalogue

_NAMES: Final = frozenset({TokenKind.WORD, TokenKind.NAME})
_REFUSED_WORDS: Final = {
    "PREWHERE": "it runs before the filter that keeps tenants apart; say WHERE",
    "OUTFILE": "it writes a file",
    "INFILE": "it reads a file",
    "NATURAL": "it joins by columns that are not named; say JOIN … USING (columns)",
}
_TREE_MARKS: Final = ("(alias ", "(children ")
"""Marks that `EXPLAIN AST` prints after a name; names must not contain them."""
_BEFORE_OPERAND: Final = frozenset({b"(", b","})
_WORDS_BEFORE_OPERAND: Final = frozenset({"SELECT", "DISTINCT"})


class SqlRefusedError(ForbiddenError, code="sql_refused"):
    """Statement that is not allowed."""


def check(seen: list[Token], catalogue: Catalogue) -> None:
    """Refuse a statement that names a relation which may not be read.

    Raises:
        SqlRefusedError: a name or a construct is refused.
    """
    for index, token in enumerate(seen):
        if token.word in _REFUSED_WORDS:
            raise SqlRefusedError(f"{token.word} is refused: {_REFUSED_WORDS[token.word]}")
        if (
            token.word == "UUID"
            and index + 1 < len(seen)
            and seen[index + 1].kind is TokenKind.STRING
        ):
            raise SqlRefusedError("UUID is refused: name the table")
        if token.kind in _NAMES:
            _check_name(token, index, seen, catalogue)
        elif token.text == b"." and _is_matcher(seen, index + 1):
            _check_operand(seen, index)
        elif token.kind is TokenKind.SIGN and not 0x20 < token.text[0] < 0x7F:
            # The engine accepts Unicode spaces and dashes; the lexer here does not.
            raise SqlRefusedError("outside of quotes only ASCII is accepted, blanks included")


def subquery_names(seen: list[Token]) -> frozenset[str]:
    """Return names before `AS (`, with or without a column list, which may be CTEs."""
    found = set()
    opened: list[int] = []
    begun_at = 0  # of the last closed parentheses
    for index, token in enumerate(seen):
        if token.text == b"(":
            opened.append(index)
        elif token.text == b")" and opened:
            begun_at = opened.pop()
        behind = index + 2 if _word(seen, index + 1) == "MATERIALIZED" else index + 1
        if token.word == "AS" and _text(seen, behind) == b"(":
            at = begun_at - 1 if _text(seen, index - 1) == b")" else index - 1
            if at >= 0 and seen[at].kind in _NAMES:
                found.add(plain(seen[at]))
    return frozenset(found)


def plain(token: Token) -> str:
    """Return a name without its quotes."""
    text = token.text
    if token.kind is TokenKind.NAME:
        edge = 3 if text.startswith(b"\xe2\x80") else 1
        text = text[edge:-edge]
    return text.decode("utf-8", "replace")


def _check_name(token: Token, index: int, seen: list[Token], catalogue: Catalogue) -> None:
    name = plain(token)
    if token.kind is TokenKind.NAME:
        # The engine prints names verbatim: a line break in one could forge a node of the tree.
        if any(byte < 0x20 or byte in (0x5C, 0x7F) for byte in token.text):
            raise SqlRefusedError("a quoted name holds a control character or a backslash")
        if any(mark in name for mark in _TREE_MARKS):
            raise SqlRefusedError("a quoted name holds '(alias ' or '(children '")
        if catalogue.is_relation(name):
            raise SqlRefusedError(
                f"the name {name[:80]!r} is that of a table; quote database and table apart"
            )
    refused = name if catalogue.is_denied(name) else ""
    if _text(seen, index + 1) == b"." and index + 2 < len(seen):
        table = f"{name}.{plain(seen[index + 2])}"
        refused = table if catalogue.is_denied(table) else refused
    if refused:
        raise SqlRefusedError(
            f"the name {refused[:120]} is refused; SHOW TABLES lists what can be read"
        )


def _is_matcher(seen: list[Token], index: int) -> bool:
    is_columns = _word(seen, index) == "COLUMNS" and _text(seen, index + 1) == b"("
    return is_columns or _text(seen, index) == b"*"


def _check_operand(seen: list[Token], dot: int) -> None:
    """Refuse `.*` after anything but a table name; the tree omits other operands."""
    at = dot - 1
    while at > 1 and seen[at].kind in _NAMES and _text(seen, at - 1) == b".":
        at -= 2
    named = at > 0 and seen[at].kind in _NAMES
    before = seen[at - 1] if named else None
    if before is None or not (
        before.text in _BEFORE_OPERAND or before.word in _WORDS_BEFORE_OPERAND
    ):
        raise SqlRefusedError(
            ".* and .COLUMNS() are refused behind anything but the name of a table, as in SELECT t.*"
        )


def _text(seen: list[Token], index: int) -> bytes:
    return seen[index].text if 0 <= index < len(seen) else b""


def _word(seen: list[Token], index: int) -> str:
    return seen[index].word if 0 <= index < len(seen) else ""
