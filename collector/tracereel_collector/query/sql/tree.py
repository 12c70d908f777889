"""What the engine's own parser makes of a statement: everything in it must be known to be harmless; pure.

Read is what `EXPLAIN AST` prints, one node a line, children indented by one blank. A parser of our own
could understand a statement differently than the engine that runs it; this one cannot.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tracereel_collector.query.sql.catalogue import LISTINGS, SYSTEM, Catalogue
from tracereel_collector.query.sql.functions import may_call
from tracereel_collector.query.sql.words import SqlRefusedError

_NODE: Final = re.compile(
    r"(?P<kind>[A-Za-z_:]+)(?: (?!\((?:alias|children))(?P<name>.*?))??"
    r"(?: \(alias (?P<alias>.*)\))?(?: \(children \d+\))?"
)
_PLAIN_NODES: Final = frozenset(
    """
    SelectWithUnionQuery SelectIntersectExceptQuery SelectQuery ExpressionList Subquery WithElement
    TablesInSelectQuery TablesInSelectQueryElement TableExpression TableJoin ArrayJoin SampleRatio
    Literal OrderByElement FillModifier InterpolateElement WindowDefinition WindowListElement
    ColumnsTransformerList ColumnsExceptTransformer ColumnsReplaceTransformer
    ColumnsReplaceTransformer::Replacement QueryParameter Explain
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
"""Columns nobody wrote: places in files that other tenants' rows are in too."""
_MEMBERSHIP: Final = frozenset(
    {"in", "notin", "globalin", "globalnotin", "nullin", "notnullin", "globalnullin"}
    | {"globalnotnullin", "inignoreset", "notinignoreset"}
)


@dataclass(frozen=True, slots=True)
class Node:
    """A line of the tree."""

    depth: int
    kind: str
    name: str
    alias: str


def check(tree: str, catalogue: Catalogue) -> None:
    """Let a tree pass in which every table, function and clause is known.

    Raises:
        SqlRefusedError: says what is not.
    """
    path: list[tuple[Node, int]] = []
    listed: set[str] = set()
    stars = False
    names: set[str] = set()
    for node in _nodes(tree):
        while path and path[-1][0].depth >= node.depth:
            path.pop()
        above = [each for each, _ in path]
        place = _place(path)
        if node.kind == "Function":
            _check_function(node, above)
        elif node.kind == "TableIdentifier":
            listed |= _check_table(node, catalogue)
        elif node.kind == "Identifier":
            names.add(node.name.rpartition(".")[2])
            _check_name(node)
            if place == 1 and len(above) > 1 and above[-2].name.lower() in _MEMBERSHIP:
                # `x IN name` reads a table of that name, if there is one.
                listed |= _check_table(node, catalogue)
        elif node.kind in _STARS:
            stars = True
        elif node.kind == "Set":
            raise SqlRefusedError("SETTINGS is refused in a statement: the limits are not yours")
        elif node.kind not in _PLAIN_NODES:
            raise SqlRefusedError(f"a statement with {node.kind} is refused")
        path.append((node, 0))
    if listed:
        _check_listed(names, stars=stars, catalogue=catalogue)


def _place(path: list[tuple[Node, int]]) -> int:
    """Which child of its parent the next node is, counted from 0."""
    if not path:
        return 0
    parent, children = path[-1]
    path[-1] = (parent, children + 1)
    return children


def _nodes(tree: str) -> Iterator[Node]:
    # Only the engine ends lines: names may hold other characters that Python would end a line at.
    for line in tree.split("\n"):
        text = line.lstrip(" ")
        found = _NODE.fullmatch(text)
        if not text:
            continue
        if found is None:
            raise SqlRefusedError("the statement cannot be understood well enough to be run")
        yield Node(len(line) - len(text), found["kind"], found["name"] or "", found["alias"] or "")


def _check_function(node: Node, above: list[Node]) -> None:
    if above and above[-1].kind == "TableExpression":
        raise SqlRefusedError(
            f"the table function {node.name} is refused: no table function is accepted"
        )
    if not may_call(node.name):
        raise SqlRefusedError(
            f"the function {node.name[:80]} is refused; docs/sql.md says which are accepted"
        )


def _check_table(node: Node, catalogue: Catalogue) -> set[str]:
    """The engine's list it names, if it does."""
    database, dot, table = node.name.rpartition(".")
    if database.lower() == "system" and (table in LISTINGS or table in SYSTEM):
        _check_alias(node, catalogue)
        return {table} & LISTINGS.keys()
    if not dot:
        # A name that is no table is one that the statement has made, or nothing.
        accepted = node.name in catalogue.readable or node.name not in catalogue.known
    else:
        accepted = database == catalogue.database and table in catalogue.readable
    if not accepted:
        raise SqlRefusedError(
            f"the table {node.name[:120]} is refused; SHOW TABLES lists what can be read"
        )
    _check_alias(node, catalogue)
    return set()


def _check_alias(node: Node, catalogue: Catalogue) -> None:
    """The engine finds a table's filter by its alias too: none may be called like another table."""
    own = node.name.rpartition(".")[2]
    if node.alias and node.alias != own and ("." in node.alias or node.alias in catalogue.known):
        raise SqlRefusedError(
            f"the alias {node.alias[:80]!r} is the name of a table; choose another"
        )


def _check_name(node: Node) -> None:
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
