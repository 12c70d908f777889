"""Guard that decides by tokens which statement a request may run; pure.

Embedded ClickHouse has no users: it runs every statement of a text, reads any file and opens any
connection. So exactly one statement passes, its data is cut off before parsing, and access to files,
the network or the session is refused by name.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from tracereel_collector.engine.failures import Code, QueryError, denied, syntax_error
from tracereel_collector.engine.lexer import Token, TokenKind, tokens
from tracereel_collector.engine.refusals import (
    CREATABLE,
    FILTER_SETTINGS,
    INNER_ENGINES,
    REFUSED_SETTINGS,
    ROW_STATEMENTS,
    SCHEMA_SETTINGS,
    SESSION_STATEMENTS,
    STATEMENTS,
    SYSTEM_COMMANDS,
    Rules,
)

_SAFE_IDENTIFIER = re.compile(r"[\w.\- ]+")
# `filter` is excluded, as it is a likely column name; its value is checked instead.
_NOT_INSIDE = (REFUSED_SETTINGS | SCHEMA_SETTINGS | FILTER_SETTINGS) - {"filter"}
_DATA_START = re.compile(rb"[ \t\f]*;?[ \t\f]*\r?\n?")
_ESCAPES = (b"\\", b"``", b'""')
_REMEMBERED = 256
_REMEMBERED_LENGTH = 16 * 1024
_QUESTIONS = (b"SELECT", b"WITH")


@dataclass(frozen=True, slots=True)
class Statement:
    """Statement that passed the guard."""

    keyword: str
    sql: str
    """Text without the data of an INSERT and without a trailing semicolon."""
    format: str | None = None
    """Format of the data if `data_start` is set, else of the result."""
    data_start: int | None = None
    """Offset of an INSERT's data in the given text."""
    data_end: int | None = None
    source_at: int = 0
    """Offset in `sql` at which an INSERT may name its data source."""
    identifiers: frozenset[str] = frozenset()
    """Names of the {x:Identifier} parameters."""

    @property
    def returns_rows(self) -> bool:
        """Whether the statement has a result, even if it is empty."""
        return self.keyword in ROW_STATEMENTS


def parse(sql: bytes, rules: Rules) -> Statement:
    """Parse the only statement in `sql`; raise QueryError if it is refused.

    Results for short queries are cached, because they repeat with other parameters.
    """
    if len(sql) <= _REMEMBERED_LENGTH and sql.lstrip()[:6].upper().startswith(_QUESTIONS):
        return _parsed_once(sql, rules)
    return _parsed(sql, rules)


def _parsed(sql: bytes, rules: Rules) -> Statement:
    stream = tokens(sql)
    first = next(stream, None)
    if first is None:
        raise syntax_error("Syntax error: Empty query.")
    keyword = "SELECT" if first.text == b"(" else first.word
    if keyword == "INSERT":
        return _parse_insert(sql, first, stream, rules)
    seen, end = _one_statement(sql, [first], stream)
    _check_keyword(keyword, seen)
    _check_tokens(seen, rules, backup=keyword in {"BACKUP", "RESTORE"})
    if keyword in {"CREATE", "REPLACE", "ATTACH"}:
        _check_create(seen, rules)
    return Statement(
        keyword=keyword,
        sql=_text(sql[:end]),
        format=_result_format(seen),
        identifiers=_identifiers(seen),
    )


_parsed_once = lru_cache(_REMEMBERED)(_parsed)


def check_identifiers(statement: Statement, parameters: dict[str, str], rules: Rules) -> None:
    """Refuse identifier parameters that would be refused in the text."""
    for name in statement.identifiers:
        value = parameters.get(name, "")
        plain = value.lower()
        if not value or (
            _SAFE_IDENTIFIER.fullmatch(value)
            and plain != "default"
            and not plain.startswith("default.")
            and plain not in rules.functions
        ):
            continue
        raise denied(
            f"Identifier parameter {name} = {value!r} is refused: letters, digits, '_', '-' and "
            "'.' are accepted, outside of the database `default`, whose names are files."
        )


def check_settings(settings: dict[str, str]) -> None:
    """Refuse request settings that open files or change the guard."""
    for name, value in settings.items():
        if not name.isidentifier() or not name.isascii():
            raise QueryError(Code.UNKNOWN_SETTING, f"Setting {name!r} is not a name of a setting.")
        if name in REFUSED_SETTINGS:
            raise denied(f"Setting {name} is refused: it reaches files or changes the guard.")
        if name in SCHEMA_SETTINGS and settings.get("format_schema_source") != "string":
            raise denied(f"Setting {name} is accepted only beside format_schema_source = 'string'.")
        # Their values are expressions inside strings, which the lexer does not parse.
        if name in FILTER_SETTINGS and "(" in value:
            raise denied(f"Setting {name} is accepted without function calls.")


def _parse_insert(sql: bytes, first: Token, stream: Iterator[Token], rules: Rules) -> Statement:
    """Parse an INSERT. With data it ends at FORMAT; VALUES and SELECT are read to the end."""
    seen, depth = [first], 0
    settings_at = 0
    for token in stream:
        previous = seen[-1].word
        if token.text == b";":
            raise syntax_error("Syntax error: INSERT needs FORMAT and data, VALUES, or SELECT.")
        seen.append(token)
        depth += _depth(token)
        if depth or previous in {"INTO", "TABLE"} or seen[-2].text == b".":
            continue
        if token.word == "SETTINGS" and not settings_at:
            settings_at = token.start
        if token.word in {"SELECT", "WITH"}:
            seen, end = _one_statement(sql, seen, stream)
            _check_tokens(seen, rules, backup=False)
            if _result_format(seen) is not None:
                raise QueryError(Code.NOT_IMPLEMENTED, "INSERT ... SELECT takes no FORMAT here.")
            return Statement(keyword="INSERT", sql=_text(sql[:end]), identifiers=_identifiers(seen))
        if previous == "FORMAT" and token.kind is TokenKind.WORD:
            head = checked = seen[:-2]
            begin, result_format, data_end = seen[-2].start, token.text.decode("ascii"), None
            blank = _DATA_START.match(sql, token.end)
            data_start = blank.end() if blank else token.end
        elif token.word == "VALUES":
            head = list(seen)
            begin, result_format, data_start = token.start, "Values", token.end
            # Values are expressions, so a function that reads a file would work there too.
            checked, data_end = _one_statement(sql, seen, stream)
        else:
            continue
        _check_tokens(checked, rules, backup=False)
        return Statement(
            keyword="INSERT",
            sql=_text(sql[:begin]),
            source_at=len(_text(sql[: settings_at or begin])),
            format=result_format,
            data_start=data_start,
            data_end=data_end,
            identifiers=_identifiers(head),
        )
    raise syntax_error("Syntax error: INSERT needs FORMAT and data, VALUES, or SELECT.")


def _one_statement(
    sql: bytes, seen: list[Token], stream: Iterator[Token]
) -> tuple[list[Token], int]:
    """Return the statement's tokens and its end; refuse anything after its semicolon."""
    for token in stream:
        if token.text != b";":
            seen.append(token)
            continue
        for rest in stream:
            if rest.text != b";":
                raise syntax_error(
                    f"Syntax error (Multi-statements are not allowed): position {token.start + 1} "
                    "ends the statement, and one statement per request is accepted."
                )
        return seen, token.start
    return seen, len(sql)


def _check_keyword(keyword: str, seen: list[Token]) -> None:
    if keyword in SESSION_STATEMENTS:
        raise QueryError(
            Code.NOT_IMPLEMENTED,
            f"{keyword} is refused: no session is kept. Send settings and database with each "
            "request.",
        )
    if keyword not in STATEMENTS:
        came = seen[0].text[:40].decode("utf-8", "replace")
        raise syntax_error(
            f"Syntax error: a statement cannot begin with {came!r}; accepted are "
            f"{sorted(STATEMENTS)}."
        )
    if keyword == "SYSTEM" and (len(seen) < 2 or seen[1].word not in SYSTEM_COMMANDS):
        raise denied(
            f"This SYSTEM command is refused; accepted are SYSTEM {sorted(SYSTEM_COMMANDS)}."
        )


def _check_tokens(seen: list[Token], rules: Rules, *, backup: bool) -> None:
    for index, (token, following) in enumerate(pairwise(seen)):
        previous = seen[index - 1].word if index else ""
        if following.text == b"(" and token.kind in {TokenKind.WORD, TokenKind.NAME}:
            name = _plain(token)
            to_archive = backup and previous in {"TO", "FROM"} and name == "file"
            if (name is None or name in rules.functions) and not to_archive:
                raise denied(
                    f"Function {token.text[:60].decode('utf-8', 'replace')} is refused: it reaches "
                    "files, the network or the process."
                )
        if following.text == b"." and token.kind in {
            TokenKind.WORD,
            TokenKind.NAME,
            TokenKind.STRING,
        }:
            after = seen[index + 2] if index + 2 < len(seen) else None
            number = after is None or after.kind is TokenKind.NUMBER
            if not number and _plain(token) in {None, "default"}:
                raise denied(
                    "Database `default` is refused: its table names are files. Use another one."
                )
        if following.word in {"INFILE", "OUTFILE"} and token.word in {"FROM", "INTO"}:
            raise denied(f"{token.word} {following.word} is refused.")
        if token.word == "PARALLEL" and following.word == "WITH":
            raise syntax_error("Syntax error: PARALLEL WITH joins several statements.")
        value = seen[index + 2] if index + 2 < len(seen) else token
        hidden_call = (
            _plain(token) == "filter" and value.kind is TokenKind.STRING and b"(" in value.text
        )
        if following.text == b"=" and (hidden_call or _plain(token) in _NOT_INSIDE):
            raise denied(
                f"Setting {_plain(token)} is refused inside a statement; format_schema and filters "
                "are accepted beside it."
            )


def _check_create(seen: list[Token], rules: Rules) -> None:
    words = [token.word for token in seen[:5] if token.word not in {"OR", "REPLACE"}]
    kind = words[1] if len(words) > 1 and words[0] in {"CREATE", "ATTACH"} else words[0]
    if kind not in CREATABLE:
        raise denied(f"{seen[0].word} {kind or '?'} is refused; accepted are {sorted(CREATABLE)}.")
    for index, token in enumerate(seen[:-1]):
        if seen[0].word == "ATTACH" and token.word == "FROM":
            raise denied("ATTACH ... FROM is refused: it names a file.")
        if token.word != "ENGINE":
            continue
        at = index + 2 if seen[index + 1].text == b"=" else index + 1
        engine = _plain(seen[at]) if at < len(seen) else ""
        if engine is None or engine in rules.engines:
            raise denied(
                f"Engine {engine or 'with escapes in its name'} is refused: accepted are the "
                f"MergeTree family and {sorted(INNER_ENGINES)}."
            )


def _plain(token: Token) -> str | None:
    """Return a name without quotes in lower case; None if it contains escapes."""
    if token.kind is TokenKind.WORD:
        text = token.text
    elif token.kind in {TokenKind.NAME, TokenKind.STRING}:
        edge = 3 if token.text.startswith(b"\xe2\x80") else 1
        text = token.text[edge:-edge]
        if any(escape in text for escape in _ESCAPES):
            return None
    else:
        return ""
    return text.decode("utf-8", "replace").lower()


def _result_format(seen: list[Token]) -> str | None:
    depth, found = 0, None
    for token, following in pairwise(seen):
        depth += _depth(token)
        if not depth and token.word == "FORMAT" and following.kind is TokenKind.WORD:
            found = following.text.decode("ascii")
    return found


def _identifiers(seen: list[Token]) -> frozenset[str]:
    return frozenset(
        name.text.decode("ascii")
        for brace, name, colon, kind in zip(seen, seen[1:], seen[2:], seen[3:], strict=False)
        if brace.text == b"{" and name.word and colon.text == b":" and kind.word == "IDENTIFIER"
    )


def _depth(token: Token) -> int:
    if token.kind is not TokenKind.SIGN:
        return 0
    return {b"(": 1, b")": -1}.get(token.text, 0)


def _text(sql: bytes) -> str:
    try:
        return sql.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise syntax_error(f"Syntax error: the statement is not UTF-8: {error.reason}.") from None
