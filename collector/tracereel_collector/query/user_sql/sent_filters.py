"""Filters that a client sends beside its statement: `additional_table_filters` of Grafana's ad-hoc filters.

The setting keeps tenants apart, so nothing of what was sent is passed on. It is read as comparisons of
columns with literals and rebuilt; such a comparison cannot fail for single rows, so that its error
cannot reveal rows of other tenants.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from tracereel_collector.engine.failures import QueryError
from tracereel_collector.engine.lexer import Token, TokenKind, tokens
from tracereel_collector.errors import BadRequestError
from tracereel_collector.query.user_sql.catalogue import Catalogue

SETTING: Final = "additional_table_filters"
ACCEPTED: Final = (
    f"{SETTING} is accepted as {{'table': 'filter'}}, where a filter is `column operator literal`"
    " or `column['key'] operator literal`, with AND and OR between them; operators are"
    " = != < <= > >= LIKE ILIKE REGEXP IN, the words also with NOT"
)
MAX_CONDITIONS: Final = 100
_OPERATORS: Final = frozenset({"=", "==", "!=", "<>", "<", "<=", ">", ">="})
_WORDS: Final = frozenset({"LIKE", "ILIKE", "REGEXP", "IN"})
_ESCAPES: Final = {b: bytes([c]) for b, c in zip(b"bfnrt0av", b"\b\f\n\r\t\0\a\v", strict=True)}

SentFilters = Mapping[str, tuple[str, ...]]
"""Conditions by table; one of them must hold."""


def split_filters(text: bytes) -> tuple[bytes, bytes]:
    """Return a statement without a `SETTINGS additional_table_filters = {…}` at its end, and its value."""
    try:
        seen = [token for token in tokens(text) if token.text != b";"]
    except QueryError as error:
        raise BadRequestError(str(error)) from error
    for index in range(len(seen) - 4, 0, -1):
        if seen[index].word == "SETTINGS":
            is_ours = seen[index + 1].text.lower() == SETTING.encode()
            if is_ours and seen[index + 2].text == b"=" and seen[-1].text == b"}":
                at = seen[index].start
                return text[:at].rstrip(), text[seen[index + 3].start : seen[-1].end]
            break
    return text, b""


def read_filters(value: bytes, catalogue: Catalogue) -> SentFilters:
    """Parse the value of the setting.

    Raises:
        BadRequestError: it is not of the accepted form, or names a table that has no rows of a tenant.
    """
    if not value.strip():
        return {}
    seen = _lexed(value)
    if len(seen) < 2 or seen[0].text != b"{" or seen[-1].text != b"}":
        raise BadRequestError(ACCEPTED)
    inner, found = seen[1:-1], {}
    for at in range(0, len(inner), 4):
        pair = inner[at : at + 4]
        signs = [token.text for token in pair[1::2]]
        if len(pair) < 3 or signs not in ([b":"], [b":", b","]):
            raise BadRequestError(ACCEPTED)
        found[_table(_literal(pair[0]), catalogue)] = tuple(_groups(_literal(pair[2])))
    return found


def _table(name: bytes, catalogue: Catalogue) -> str:
    plain = name.decode("utf-8", "replace").replace('"', "").replace("`", "")
    database, _, table = plain.rpartition(".")
    if database not in {"", "default", catalogue.database} or table not in catalogue.tenant_columns:
        raise BadRequestError(
            f"{SETTING} names {plain[:80]!r}, which is no table with rows of yours"
        )
    return table


def _groups(text: bytes) -> Iterator[str]:
    """Yield the conditions between `OR`, rebuilt without parentheses, which the engine refuses there."""
    seen, group, at = _lexed(text), [], 0
    for _ in range(MAX_CONDITIONS):
        condition, at = _condition(seen, at)
        group.append(condition)
        word = seen[at].word if at < len(seen) else ""
        if at == len(seen) or word == "OR":
            yield " AND ".join(group)
            group = []
        if at == len(seen):
            return
        if word not in {"AND", "OR"}:
            break
        at += 1
    raise BadRequestError(ACCEPTED)


def _condition(seen: list[Token], at: int) -> tuple[str, int]:
    """Return one comparison, and the place behind it."""
    padded = [*seen[at:], *[Token(TokenKind.SIGN, b"", 0, 0)] * 4]
    column, used = _column(padded)
    rest = padded[used:]
    negated = rest[0].word == "NOT"
    word = rest[negated].word
    if word in _WORDS:
        operator, used = f"{'NOT ' * negated}{word}", used + negated + 1
    else:
        sign = rest[0].text.decode("utf-8", "replace")
        pair = sign + rest[1].text.decode("utf-8", "replace")
        operator = pair if pair in _OPERATORS else sign
        used += 1 + (operator == pair)
        if operator not in _OPERATORS:
            raise BadRequestError(ACCEPTED)
    values, size = _values(padded[used:], is_list=word == "IN")
    return f"{column} {operator} {values}", at + used + size


def _column(seen: list[Token]) -> tuple[str, int]:
    """Return a column or the key of one, quoted, and its number of tokens."""
    first = seen[0]
    name = first.text
    if first.kind is TokenKind.NAME and name[:1] in b'`"':
        name = name[1:-1]
    elif first.kind is not TokenKind.WORD:
        raise BadRequestError(ACCEPTED)
    used = 1
    while seen[used].text == b"." and seen[used + 1].kind is TokenKind.WORD:
        name, used = name + b"." + seen[used + 1].text, used + 2
    plain = name.decode("utf-8", "replace")
    if plain.startswith("_") or not all(each.isalnum() or each in "_." for each in plain):
        raise BadRequestError(f"{SETTING} names {plain[:80]!r}, which is no column")
    if [token.text for token in (seen[used], seen[used + 2])] == [b"[", b"]"]:
        return f"`{plain}`[{_written(_literal(seen[used + 1]))}]", used + 3
    return f"`{plain}`", used


def _values(seen: list[Token], *, is_list: bool) -> tuple[str, int]:
    """Return a literal, or a list of them, and its number of tokens."""
    if not is_list:
        return _value(seen[0]), 1
    if seen[0].text != b"(":
        raise BadRequestError(ACCEPTED)
    found = []
    for at in range(1, len(seen) - 1, 2):
        found.append(_value(seen[at]))
        if seen[at + 1].text == b")":
            return f"[{', '.join(found)}]", at + 2
        if seen[at + 1].text != b",":
            break
    raise BadRequestError(ACCEPTED)


def _value(token: Token) -> str:
    if token.kind is TokenKind.NUMBER and token.text.isdigit():
        return token.text.decode()
    if token.word == "NULL":
        return "NULL"
    return _written(_literal(token))


def _literal(token: Token) -> bytes:
    """Return the bytes of a string literal."""
    text = token.text
    if token.kind is not TokenKind.STRING or text[:1] != b"'":
        raise BadRequestError(ACCEPTED)
    found, at, inner = bytearray(), 0, text[1:-1]
    while at < len(inner):
        byte = inner[at]
        if byte == ord("\\"):
            at += 1
            found += _ESCAPES.get(inner[at], inner[at : at + 1])
            if inner[at] in b"xNu":
                raise BadRequestError(f"{SETTING} has an escape that is not read; {ACCEPTED}")
        else:
            found.append(byte)
            at += byte == ord("'")  # the second of two quotes
        at += 1
    return bytes(found)


def _written(value: bytes) -> str:
    """Return bytes as a string literal in which nothing can end it."""
    return "'" + "".join(f"\\x{byte:02x}" for byte in value) + "'"


def _lexed(text: bytes) -> list[Token]:
    try:
        return list(tokens(text))
    except QueryError as error:
        raise BadRequestError(str(error)) from error
