"""Checks on the text of a statement: single, of an accepted kind, and its format.

This module is pure.
"""

from dataclasses import dataclass
from typing import Final

from tracereel_collector.engine.failures import QueryError
from tracereel_collector.engine.lexer import Token, TokenKind, tokens
from tracereel_collector.engine.refusals import SESSION_STATEMENTS, STATEMENTS, Rules
from tracereel_collector.engine.statements import parse
from tracereel_collector.errors import BadRequestError
from tracereel_collector.query.user_sql import names
from tracereel_collector.query.user_sql.catalogue import Catalogue
from tracereel_collector.query.user_sql.names import SqlRefusedError

ACCEPTED: Final = "SELECT, WITH, EXPLAIN, SHOW TABLES, SHOW DATABASES, DESCRIBE TABLE, EXISTS TABLE"
_BEGINNINGS: Final = STATEMENTS | SESSION_STATEMENTS
_EXPLAINED: Final = {("AST",), ("SYNTAX",), ("QUERY", "TREE")}
_KEYWORDS: Final = frozenset({"SELECT", "WITH", "EXPLAIN", "SHOW", "DESCRIBE", "DESC", "EXISTS"})
"""First words of accepted statements."""


@dataclass(frozen=True, slots=True)
class Said:
    """Statement with the facts derived from its text."""

    sql: str
    """Statement for the engine, without FORMAT."""
    select: str | None
    """SELECT that must be checked; `None` for generated statements."""
    format: str | None
    subqueries: frozenset[str] = frozenset()
    """Names of its CTEs."""


def read(text: bytes, catalogue: Catalogue) -> Said:
    """Parse a text that holds one statement.

    Raises:
        BadRequestError: it is not exactly one statement, or is malformed.
        SqlRefusedError: its kind is not accepted.
    """
    try:
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
    names.check(seen, catalogue)
    sql, result_format = _without_format(statement.sql, seen)
    if result_format is not None:
        seen = seen[:-2]
    if statement.format != result_format:
        raise SqlRefusedError("FORMAT is accepted at the end of the statement only")
    if statement.keyword in {"SELECT", "WITH"}:
        return Said(sql, sql, result_format, names.subquery_names(seen))
    if statement.keyword == "EXPLAIN":
        return Said(sql, _explained(sql, seen), result_format, names.subquery_names(seen))
    return Said(_listing(statement.keyword, seen, catalogue), None, result_format)


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


def _explained(sql: str, seen: list[Token]) -> str:
    words = [token.word for token in seen[1:4]]
    for kind in _EXPLAINED:
        at = 1 + len(kind)
        if tuple(words[: len(kind)]) == kind and len(seen) > at and _begins_select(seen[at]):
            return sql.encode()[seen[at].start :].decode()
    raise SqlRefusedError(
        "EXPLAIN is accepted as EXPLAIN AST, EXPLAIN SYNTAX or EXPLAIN QUERY TREE, without options,"
        " of a SELECT"
    )


def _begins_select(token: Token) -> bool:
    return token.word in {"SELECT", "WITH"} or token.text == b"("


def _listing(keyword: str, seen: list[Token], catalogue: Catalogue) -> str:
    """Return a statement that lists readable names, for SHOW, DESCRIBE and EXISTS."""
    words = [token.word for token in seen]
    plain = [_name(token) for token in seen]
    if words in (["SHOW", "DATABASES"], ["SHOW", "SCHEMAS"]):
        return _names([catalogue.database])
    if words[:2] == ["SHOW", "TABLES"] or words[:3] == ["SHOW", "FULL", "TABLES"]:
        rest = seen[3:] if words[1] == "FULL" else seen[2:]
        return _show_tables(rest, catalogue)
    if keyword in {"DESCRIBE", "DESC", "EXISTS"}:
        rest_names = plain[2:] if len(words) > 1 and words[1] == "TABLE" else plain[1:]
        table = _table(rest_names, catalogue)
        if table is not None:
            there = table in catalogue.readable
            if keyword == "EXISTS":
                return f"SELECT toUInt8({int(there)}) AS result"
            if there:
                return f"DESCRIBE TABLE `{catalogue.database}`.`{table}`"
            raise BadRequestError(f"there is no table {table!r}", hint="see SHOW TABLES")
    raise SqlRefusedError(f"this statement is refused; accepted are {ACCEPTED}")


def _show_tables(rest: list[Token], catalogue: Catalogue) -> str:
    found = catalogue.readable
    if rest and rest[0].word in {"FROM", "IN"} and len(rest) > 1:
        if _name(rest[1]) not in {catalogue.database, "default"}:
            found = []
        rest = rest[2:]
    if len(rest) == 2 and rest[0].word in {"LIKE", "ILIKE"} and rest[1].kind is TokenKind.STRING:
        return f"{_names(found)} WHERE name {rest[0].word} {rest[1].text.decode()}"
    if rest:
        raise SqlRefusedError("SHOW TABLES is accepted with FROM database and LIKE 'pattern'")
    return _names(found)


def _table(parts: list[str], catalogue: Catalogue) -> str | None:
    """Return the table of `table` or `database.table`."""
    if len(parts) == 1:
        return parts[0] or None
    if len(parts) == 3 and parts[1] == "." and parts[0] in {catalogue.database, "default"}:
        return parts[2] or None
    return None


def _name(token: Token) -> str:
    if token.kind in {TokenKind.NAME, TokenKind.WORD}:
        return names.plain(token)
    return "." if token.text == b"." else ""


def _names(found: list[str]) -> str:
    listed = ", ".join(f"'{name}'" for name in found)
    return f"SELECT name FROM (SELECT arrayJoin(CAST([{listed}] AS Array(String))) AS name)"
