"""What can be told from the text of a statement: that it is one, its kind, its format; pure."""

from dataclasses import dataclass
from typing import Final

from tracereel_collector.engine.failures import QueryError
from tracereel_collector.engine.lexer import Kind, Token, tokens
from tracereel_collector.engine.refusals import SESSION_STATEMENTS, STATEMENTS, Rules
from tracereel_collector.engine.statements import parse
from tracereel_collector.errors import BadRequestError, ForbiddenError
from tracereel_collector.query.sql.catalogue import Catalogue

ACCEPTED: Final = "SELECT, WITH, EXPLAIN, SHOW TABLES, SHOW DATABASES, DESCRIBE TABLE, EXISTS TABLE"
_BEGINNINGS: Final = STATEMENTS | SESSION_STATEMENTS
_EXPLAINED: Final = {("AST",), ("SYNTAX",), ("QUERY", "TREE")}
_REFUSED_WORDS: Final = {
    "PREWHERE": "it runs before the filter that keeps tenants apart; say WHERE",
    "OUTFILE": "it writes a file",
    "INFILE": "it reads a file",
}


class SqlRefusedError(ForbiddenError):
    """A statement that may not run here."""

    code = "sql_refused"


_KEYWORDS: Final = frozenset({"SELECT", "WITH", "EXPLAIN", "SHOW", "DESCRIBE", "DESC", "EXISTS"})
"""What statements begin with that run here, as far as one word tells."""


@dataclass(frozen=True, slots=True)
class Said:
    """A statement as its words tell it."""

    sql: str
    """What the engine is asked; without FORMAT."""
    select: str | None
    """The SELECT in it that has to be looked at; None for one that was made here."""
    format: str | None


def read(text: bytes, catalogue: Catalogue) -> Said:
    """The one statement in a text.

    Raises:
        BadRequestError: it is not one, or cannot be read.
        SqlRefusedError: it is of a kind that does not run here.
    """
    try:
        _check_beginning(text)
        # Nothing is refused by name here: what may be called is a list of its own.
        statement = parse(text, Rules(functions=frozenset(), engines=frozenset()))
        seen = list(tokens(statement.sql.encode()))
    except QueryError as error:
        raise BadRequestError(str(error)) from error
    if statement.keyword not in _KEYWORDS:
        raise SqlRefusedError(f"this statement is refused; accepted are {ACCEPTED}")
    if statement.identifiers:
        raise SqlRefusedError("parameters of the type Identifier are refused; write the name")
    for token in seen:
        _check_token(token)
    sql, result_format = _without_format(statement.sql, seen)
    if result_format is not None:
        seen = seen[:-2]
    if statement.format != result_format:
        raise SqlRefusedError("FORMAT is accepted at the end of the statement only")
    if statement.keyword in {"SELECT", "WITH"}:
        return Said(sql, sql, result_format)
    if statement.keyword == "EXPLAIN":
        return Said(sql, _explained(sql, seen), result_format)
    return Said(_listing(statement.keyword, seen, catalogue), None, result_format)


def _check_beginning(text: bytes) -> None:
    """The engine itself begins statements in more ways than run here."""
    first = next(tokens(text), None)
    if first is not None and first.kind is Kind.WORD and first.word not in _BEGINNINGS:
        came = first.text[:40].decode("utf-8", "replace")
        raise BadRequestError(f"a statement cannot begin with {came!r}; accepted are {ACCEPTED}")


def _check_token(token: Token) -> None:
    if token.word in _REFUSED_WORDS:
        raise SqlRefusedError(f"{token.word} is refused: {_REFUSED_WORDS[token.word]}")
    # The engine's parser shows names as they are: one with a line break could pose as a part of the tree.
    odd = any(byte < 0x20 or byte in (0x5C, 0x7F) for byte in token.text)
    if token.kind is Kind.NAME and odd:
        raise SqlRefusedError("a quoted name holds a control character or a backslash")


def _without_format(sql: str, seen: list[Token]) -> tuple[str, str | None]:
    if len(seen) > 2 and seen[-2].word == "FORMAT" and seen[-1].kind is Kind.WORD:
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
    """What clients ask to find their way, answered from the names that may be read."""
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
    if len(rest) == 2 and rest[0].word in {"LIKE", "ILIKE"} and rest[1].kind is Kind.STRING:
        return f"{_names(found)} WHERE name {rest[0].word} {rest[1].text.decode()}"
    if rest:
        raise SqlRefusedError("SHOW TABLES is accepted with FROM database and LIKE 'pattern'")
    return _names(found)


def _table(names: list[str], catalogue: Catalogue) -> str | None:
    """`table` or `database.table`."""
    if len(names) == 1:
        return names[0] or None
    if len(names) == 3 and names[1] == "." and names[0] in {catalogue.database, "default"}:
        return names[2] or None
    return None


def _name(token: Token) -> str:
    text = token.text.decode("utf-8", "replace")
    if token.kind is Kind.NAME:
        return text[1:-1]
    return text if token.kind is Kind.WORD or text == "." else ""


def _names(names: list[str]) -> str:
    listed = ", ".join(f"'{name}'" for name in names)
    return f"SELECT name FROM (SELECT arrayJoin(CAST([{listed}] AS Array(String))) AS name)"
