"""Checks of a statement's syntax tree: every node must be known to be harmless; pure.

The tree is the output of `EXPLAIN AST`, one node per line, children indented by one space. Using the
engine's own parser rules out differences between the statement checked and the statement run.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from tracereel_collector.query.user_sql.catalogue import LISTINGS, SYSTEM, Catalogue
from tracereel_collector.query.user_sql.statement_text import SqlRefusedError

_KIND: Final = re.compile(r"[A-Za-z_:]+")
_COUNT: Final = re.compile(r"[0-9]{0,8}")
_LEAVES: Final = frozenset({"Identifier", "TableIdentifier"})
_PLAIN_NODES: Final = frozenset(
    """
    SelectWithUnionQuery SelectIntersectExceptQuery SelectQuery ExpressionList Subquery WithElement
    TablesInSelectQuery TablesInSelectQueryElement TableExpression TableJoin ArrayJoin SampleRatio
    Literal OrderByElement FillModifier InterpolateElement WindowDefinition WindowListElement
    ColumnsTransformerList ColumnsExceptTransformer ColumnsReplaceTransformer
    ColumnsReplaceTransformer::Replacement QueryParameter
    """.split()  # noqa: SIM905 - thirty quotes would hide the names
)
_STARS: Final = frozenset(
    {"Asterisk", "QualifiedAsterisk", "ColumnsRegexpMatcher", "ColumnsListMatcher"}
    | {"QualifiedColumnsRegexpMatcher", "QualifiedColumnsListMatcher"}
)
_VIRTUAL: Final = frozenset(
    """
    _part _part_index _part_starting_offset _part_uuid _partition_id _partition_value _sample_factor
    _part_offset _part_data_version _disk_name _distance _block_number _block_offset _row_exists
    _part_granule_offset _table _database _path _file _size _time _headers _shard_num
    """.split()  # noqa: SIM905 - the same
)
"""Virtual columns, which reveal positions in files shared with other tenants."""
_MEMBERSHIP: Final = frozenset(
    {"in", "notin", "globalin", "globalnotin", "nullin", "notnullin", "globalnullin"}
    | {"globalnotnullin"}
)
_COMBINATORS: Final = (
    *("if", "array", "map", "distinct", "ordefault", "ornull", "resample", "foreach"),
    *("state", "merge", "simplestate", "mergestate", "argmin", "argmax"),
)
"""Suffixes (combinators) that an aggregate function name may have."""
_MAX_COMBINATORS: Final = 6


@dataclass(frozen=True, slots=True)
class SqlNode:
    """Line of the tree."""

    depth: int
    kind: str
    name: str
    alias: str
    children: int


def check(
    tree: str, catalogue: Catalogue, *, subqueries: frozenset[str] = frozenset()
) -> frozenset[str]:
    """Refuse a tree with an unknown table, function or clause; return the tables as they are named.

    Raises:
        SqlRefusedError: a node is refused.
    """
    nodes = list(_nodes(tree))
    _check_counts(nodes)
    aliases = {node.alias for node in nodes if node.alias}
    for alias in aliases:
        if catalogue.is_relation(alias):
            raise SqlRefusedError(
                f"the alias {alias[:80]!r} is the name of a table; choose another"
            )
    path: list[SqlNode] = []
    places: list[int] = []  # child index of each node of the path
    listed: set[str] = set()
    stars = False
    tables: set[str] = set()
    names: set[str] = set(aliases)
    for node in nodes:
        place = 0
        while len(path) > node.depth:
            path.pop()
            place = places.pop() + 1
        path.append(node)
        places.append(place)
        if node.kind == "Function":
            _check_function(node, path)
        elif node.kind == "TableIdentifier":
            tables.add(node.name)
            listed |= _check_table(node, catalogue, subqueries)
        elif node.kind == "Identifier":
            names.add(node.name.rpartition(".")[2])
            _check_name(node, catalogue)
            if place == 1 and len(path) > 2 and path[-3].name.lower() in _MEMBERSHIP:
                listed |= _check_set(node, catalogue, aliases=aliases, subqueries=subqueries)
        elif node.kind in _STARS:
            stars = True
        elif node.kind == "Set":
            raise SqlRefusedError("SETTINGS is refused in a statement: the limits are not yours")
        elif node.kind not in _PLAIN_NODES:
            raise SqlRefusedError(f"a statement with {node.kind} is refused")
    if listed:
        _check_listed(names, stars=stars, catalogue=catalogue)
    return frozenset(tables)


def _nodes(tree: str) -> Iterator[SqlNode]:
    # Split only at line feeds: names may contain other characters that `splitlines` splits at.
    for line in tree.split("\n"):
        text = line.lstrip(" ")
        if text:
            yield _node(text, depth=len(line) - len(text))


def _node(text: str, *, depth: int) -> SqlNode:
    """Parse `Kind name (alias a) (children n)`; only the kind is required.

    Names that contain these marks were refused before, so the last marks are the engine's.
    """
    kind, space, rest = text.partition(" ")
    rest = f"{space}{rest}"
    # A literal may contain any text, and has no children.
    rest, count = (rest, "") if kind == "Literal" else _cut(rest, " (children ")
    name, alias = _cut(rest, " (alias ")
    if not _KIND.fullmatch(kind) or not _COUNT.fullmatch(count) or (count and kind in _LEAVES):
        raise _unclear()
    return SqlNode(depth, kind, name[1:], alias, int(count or 0))


def _cut(text: str, mark: str) -> tuple[str, str]:
    """Split a text at the last mark into the text before and the marked value."""
    before, found, behind = text.rpartition(mark)
    return (before, behind[:-1]) if found and behind.endswith(")") else (text, "")


def _unclear() -> SqlRefusedError:
    return SqlRefusedError("the statement cannot be understood well enough to be run")


def _check_counts(nodes: list[SqlNode]) -> None:
    """Check the child count of every node, so that names cannot forge nodes."""
    missing: list[int] = [1]  # children that each node above the next line still lacks
    for node in nodes:
        while len(missing) > node.depth + 1 and missing[-1] == 0:
            missing.pop()
        if len(missing) != node.depth + 1 or missing[-1] == 0:
            raise _unclear()
        missing[-1] -= 1
        missing.append(node.children)
    if any(missing):
        raise _unclear()


def _check_function(node: SqlNode, path: list[SqlNode]) -> None:
    if len(path) > 1 and path[-2].kind == "TableExpression":
        raise SqlRefusedError(
            f"the table function {node.name} is refused: no table function is accepted"
        )
    if not _may_call(node.name):
        raise SqlRefusedError(
            f"the function {node.name[:80]} is refused; docs/sql.md says which are accepted"
        )


@cache
def _allowed_functions() -> frozenset[str]:
    """Return the functions that were reviewed, in lower case; all others are refused.

    Not listed are functions that access files, the network, dictionaries or other tables, reveal the
    machine or its settings, sleep, or can run for minutes in a single call that no limit interrupts.
    """
    return frozenset(resources.files(__package__).joinpath("functions.txt").read_text().split())


def _may_call(name: str) -> bool:
    """Return whether a function may be called, with or without combinators."""
    return _is_allowed(name.lower(), _MAX_COMBINATORS)


def _is_allowed(name: str, left: int) -> bool:
    if name in _allowed_functions():
        return True
    return left > 0 and any(
        _is_allowed(name.removesuffix(each), left - 1)
        for each in _COMBINATORS
        if name.endswith(each)
    )


def _check_table(node: SqlNode, catalogue: Catalogue, subqueries: frozenset[str]) -> set[str]:
    """Check a table; return the system listing that it names, if any."""
    database, dot, table = node.name.rpartition(".")
    if database.lower() == "system" and (table in LISTINGS or table in SYSTEM):
        _check_alias(node, catalogue)
        return {table} & LISTINGS.keys()
    if not dot:
        accepted = node.name in catalogue.readable or node.name in subqueries
    else:
        accepted = database == catalogue.database and table in catalogue.readable
    if not accepted:
        raise SqlRefusedError(
            f"the table {node.name[:120]} is refused; SHOW TABLES lists what can be read"
        )
    _check_alias(node, catalogue)
    return set()


def _check_set(
    node: SqlNode, catalogue: Catalogue, *, aliases: set[str], subqueries: frozenset[str]
) -> set[str]:
    """Check `x IN name`, which may read a table, a CTE or an alias."""
    if node.name not in subqueries and not catalogue.is_relation(_qualified(node.name, catalogue)):
        raise SqlRefusedError(
            f"IN {node.name[:80]} is refused: a table or a subquery of WITH can be named there;"
            " for an array say has(array, x)"
        )
    if node.name in aliases:
        raise SqlRefusedError(f"IN {node.name[:80]} is refused: it is the name of an alias too")
    return _check_table(node, catalogue, subqueries)


def _qualified(name: str, catalogue: Catalogue) -> str:
    return name if "." in name else f"{catalogue.database}.{name}"


def _check_alias(node: SqlNode, catalogue: Catalogue) -> None:
    """Refuse an alias that names another table, because the engine matches filters by alias too."""
    own = node.name.rpartition(".")[2]
    if node.alias and node.alias != own and ("." in node.alias or node.alias in catalogue.known):
        raise SqlRefusedError(
            f"the alias {node.alias[:80]!r} is the name of a table; choose another"
        )


def _check_name(node: SqlNode, catalogue: Catalogue) -> None:
    parts = node.name.split(".")
    for name in (parts[0], ".".join(parts[:2]), node.name):
        if catalogue.is_denied(name):
            raise SqlRefusedError(
                f"the name {name[:120]} is refused; SHOW TABLES lists what can be read"
            )
    for part in node.name.lower().split("."):
        if part in _VIRTUAL:
            raise SqlRefusedError(f"the column {part} is refused: it tells of other rows' places")


def _check_listed(names: set[str], *, stars: bool, catalogue: Catalogue) -> None:
    hidden = sorted(names & catalogue.hidden_columns)
    if hidden or stars:
        shown = ", ".join(
            f"system.{table} ({', '.join(sorted(LISTINGS[table]))})" for table in LISTINGS
        )
        raise SqlRefusedError(
            f"{', '.join(hidden) or '*'} of the engine's lists is refused; accepted are {shown}"
        )
