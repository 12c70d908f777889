"""Checks on the text of a statement: single, of an accepted kind, its names and its format; pure.

`EXPLAIN AST` omits some parts: the operand of `(expr).*`, names of CTEs and windows, and targets of
REPLACE. So every name is checked where it is written, whatever it refers to.
"""

from dataclasses import dataclass
from typing import Final

from tracereel_collector.engine.failures import QueryError
from tracereel_collector.engine.lexer import Token, TokenKind, tokens
from tracereel_collector.engine.refusals import SESSION_STATEMENTS, STATEMENTS, Rules
from tracereel_collector.engine.statements import parse
from tracereel_collector.errors import BadRequestError, ForbiddenError
from tracereel_collector.query.user_sql.catalogue import Catalogue

ACCEPTED: Final = (
    "SELECT, WITH, EXPLAIN, SHOW TABLES, SHOW DATABASES, SHOW COLUMNS, SHOW CREATE TABLE,"
    " DESCRIBE TABLE, EXISTS TABLE"
)
_BEGINNINGS: Final = STATEMENTS | SESSION_STATEMENTS
_PLAN: Final = "EXPLAIN PLAN actions = 0, indexes = 0"
_EXPLAINED: Final = {
    (): _PLAN,
    ("PLAN",): _PLAN,
    ("AST",): "EXPLAIN AST",
    ("SYNTAX",): "EXPLAIN SYNTAX",
    ("QUERY", "TREE"): "EXPLAIN QUERY TREE",
}
"""Statement for each kind of EXPLAIN: a plan counts no parts, which tenants share."""
_KEYWORDS: Final = frozenset({"SELECT", "WITH", "EXPLAIN", "SHOW", "DESCRIBE", "DESC", "EXISTS"})
"""First words of accepted statements."""
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


@dataclass(frozen=True, slots=True)
class CheckedText:
    """Statement with the facts derived from its text."""

    sql: str
    """Statement for the engine, without FORMAT."""
    select: str | None
    """SELECT that must be checked; `None` for generated statements."""
    format: str | None
    subqueries: frozenset[str] = frozenset()
    """Names of its CTEs."""


def read(text: bytes, catalogue: Catalogue) -> CheckedText:
    """Parse a text that holds one statement.

    Raises:
        BadRequestError: it is not exactly one statement, or is malformed.
        SqlRefusedError: its kind is not accepted.
    """
    try:
        text = _with_own_database(text, catalogue)
        _check_beginning(text)
        # No function is refused here; `tree` checks them against an allow list.
        statement = parse(text, Rules(functions=frozenset(), engines=frozenset()))
        seen = list(tokens(statement.sql.encode()))
    except QueryError as error:
        raise BadRequestError(str(error)) from error
    if statement.keyword not in _KEYWORDS:
        raise SqlRefusedError(f"this statement is refused; accepted are {ACCEPTED}")
    if statement.identifiers:
        raise SqlRefusedError("parameters of the type Identifier are refused; write the name")
    check_names(seen, catalogue)
    sql, result_format = _without_format(statement.sql, seen)
    if result_format is not None:
        seen = seen[:-2]
    if statement.format != result_format:
        raise SqlRefusedError("FORMAT is accepted at the end of the statement only")
    if statement.keyword in {"SELECT", "WITH"}:
        return CheckedText(sql, sql, result_format, subquery_names(seen))
    if statement.keyword == "EXPLAIN":
        begins, select = _explained(sql, seen)
        return CheckedText(f"{begins} {select}", select, result_format, subquery_names(seen))
    return CheckedText(_listing(statement.keyword, seen, catalogue), None, result_format)


def _with_own_database(text: bytes, catalogue: Catalogue) -> bytes:
    """Return a text that names the database of readable tables where `default` stood before them."""
    seen = list(tokens(text))
    own = f"`{catalogue.database}`".encode()
    for index in range(len(seen) - 3, -1, -1):
        name, dot, table = seen[index : index + 3]
        if (
            dot.text == b"."
            and name.kind in _NAMES
            and _plain(name) == "default"
            and table.kind in _NAMES
            and _plain(table) in catalogue.readable
            and (index == 0 or seen[index - 1].text != b".")
        ):
            text = text[: name.start] + own + text[name.end :]
    return text


def _check_beginning(text: bytes) -> None:
    """Refuse first words that the engine accepts but this API does not."""
    first = next(tokens(text), None)
    if first is not None and first.kind is TokenKind.WORD and first.word not in _BEGINNINGS:
        came = first.text[:40].decode("utf-8", "replace")
        raise BadRequestError(f"a statement cannot begin with {came!r}; accepted are {ACCEPTED}")


def _without_format(sql: str, seen: list[Token]) -> tuple[str, str | None]:
    if len(seen) > 2 and seen[-2].word == "FORMAT" and seen[-1].kind is TokenKind.WORD:
        return sql.encode()[: seen[-2].start].decode().rstrip(), seen[-1].text.decode()
    return sql, None


def _explained(sql: str, seen: list[Token]) -> tuple[str, str]:
    """Return the beginning of an EXPLAIN as it is run, and its SELECT."""
    words = [token.word for token in seen[1:4]]
    for kind, begins in _EXPLAINED.items():
        at = 1 + len(kind)
        if tuple(words[: len(kind)]) == kind and len(seen) > at and _begins_select(seen[at]):
            return begins, sql.encode()[seen[at].start :].decode()
    raise SqlRefusedError(
        "EXPLAIN is accepted as EXPLAIN, EXPLAIN PLAN, EXPLAIN AST, EXPLAIN SYNTAX or"
        " EXPLAIN QUERY TREE, without options, of a SELECT"
    )


def _begins_select(token: Token) -> bool:
    return token.word in {"SELECT", "WITH"} or token.text == b"("


def _listing(keyword: str, seen: list[Token], catalogue: Catalogue) -> str:
    """Return a statement that lists readable names, for SHOW, DESCRIBE and EXISTS."""
    words = [token.word for token in seen]
    plain = [_name(token) for token in seen]
    if words in (["SHOW", "DATABASES"], ["SHOW", "SCHEMAS"]):
        return _listed([catalogue.database])
    if words[:2] == ["SHOW", "TABLES"] or words[:3] == ["SHOW", "FULL", "TABLES"]:
        rest = seen[3:] if words[1] == "FULL" else seen[2:]
        return _show_tables(rest, catalogue)
    if words[:2] == ["SHOW", "CREATE"]:
        table = _table(plain[3:] if words[2:3] in (["TABLE"], ["VIEW"]) else plain[2:], catalogue)
        if table is not None:
            return f"SHOW CREATE TABLE {_readable(table, catalogue)}"
    if words[:1] == ["SHOW"]:
        at = 2 if words[1:2] == ["FULL"] else 1
        if words[at : at + 1] in (["COLUMNS"], ["FIELDS"]):
            return _show_columns("FULL " * (at - 1), seen[at + 1 :], catalogue)
    if keyword in {"DESCRIBE", "DESC", "EXISTS"}:
        rest_names = plain[2:] if len(words) > 1 and words[1] == "TABLE" else plain[1:]
        table = _table(rest_names, catalogue)
        if table is not None:
            there = table in catalogue.readable
            if keyword == "EXISTS":
                return f"SELECT toUInt8({int(there)}) AS result"
            return f"DESCRIBE TABLE {_readable(table, catalogue)}"
    raise SqlRefusedError(f"this statement is refused; accepted are {ACCEPTED}")


def _readable(table: str, catalogue: Catalogue) -> str:
    """Return a table with its database, quoted."""
    if table not in catalogue.readable:
        raise BadRequestError(f"there is no table {table[:80]!r}", hint="see SHOW TABLES")
    return f"`{catalogue.database}`.`{table}`"


def _show_columns(full: str, rest: list[Token], catalogue: Catalogue) -> str:
    """Return `SHOW COLUMNS` of `FROM table [FROM database] [LIKE 'pattern']`."""
    like = ""
    if len(rest) > 2 and rest[-2].word in {"LIKE", "ILIKE"} and rest[-1].kind is TokenKind.STRING:
        like, rest = f" {rest[-2].word} {rest[-1].text.decode()}", rest[:-2]
    names = [_name(token) for token in rest if token.word not in {"FROM", "IN"}]
    if [token.word in {"FROM", "IN"} for token in rest] == [True, False, True, False]:
        names = [names[1], ".", names[0]]
    table = _table(names, catalogue) if rest and rest[0].word in {"FROM", "IN"} else None
    if table is None:
        raise SqlRefusedError(
            "SHOW COLUMNS is accepted with FROM table, FROM database and LIKE 'pattern'"
        )
    return f"SHOW {full}COLUMNS FROM {_readable(table, catalogue)}{like}"


def _show_tables(rest: list[Token], catalogue: Catalogue) -> str:
    found = catalogue.readable
    if rest and rest[0].word in {"FROM", "IN"} and len(rest) > 1:
        if _name(rest[1]) not in {catalogue.database, "default"}:
            found = []
        rest = rest[2:]
    if len(rest) == 2 and rest[0].word in {"LIKE", "ILIKE"} and rest[1].kind is TokenKind.STRING:
        return f"{_listed(found)} WHERE name {rest[0].word} {rest[1].text.decode()}"
    if rest:
        raise SqlRefusedError("SHOW TABLES is accepted with FROM database and LIKE 'pattern'")
    return _listed(found)


def _table(parts: list[str], catalogue: Catalogue) -> str | None:
    """Return the table of `table` or `database.table`."""
    if len(parts) == 1:
        return parts[0] or None
    if len(parts) == 3 and parts[1] == "." and parts[0] in {catalogue.database, "default"}:
        return parts[2] or None
    return None


def _name(token: Token) -> str:
    if token.kind in _NAMES:
        return _plain(token)
    return "." if token.text == b"." else ""


def _listed(found: list[str]) -> str:
    listed = ", ".join(f"'{name}'" for name in found)
    return f"SELECT name FROM (SELECT arrayJoin(CAST([{listed}] AS Array(String))) AS name)"


def check_names(seen: list[Token], catalogue: Catalogue) -> None:
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
                found.add(_plain(seen[at]))
    return frozenset(found)


def _plain(token: Token) -> str:
    """Return a name without its quotes."""
    text = token.text
    if token.kind is TokenKind.NAME:
        edge = 3 if text.startswith(b"\xe2\x80") else 1
        text = text[edge:-edge]
    return text.decode("utf-8", "replace")


def _check_name(token: Token, index: int, seen: list[Token], catalogue: Catalogue) -> None:
    name = _plain(token)
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
        table = f"{name}.{_plain(seen[index + 2])}"
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
