"""A name in a statement cannot be mistaken for a line of the syntax tree."""

import pytest

from tracereel_collector.query.user_sql.catalogue import build_catalogue
from tracereel_collector.query.user_sql.statement_text import SqlRefusedError
from tracereel_collector.query.user_sql.tree import _nodes, check

ENDS_FOR_PYTHON = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\r"


@pytest.mark.parametrize("end", ENDS_FOR_PYTHON, ids=ascii)
def test_a_name_with_an_odd_character_is_one_node(end):
    tree = f"SelectQuery (children 1)\n Identifier a{end} Literal b\n Literal c\n"

    nodes = list(_nodes(tree))

    assert [node.kind for node in nodes] == ["SelectQuery", "Identifier", "Literal"]


@pytest.mark.parametrize(
    "tree",
    [
        "SelectQuery",
        "SelectQuery (children 1)\n Literal a",
        "SelectQuery (children 2)\n Literal a (alias x)\n Literal 'y (children 3)'",
        "SelectQuery (children 1)\n Literal Tuple_('x (children 3', UInt64_1)",
        "SelectQuery (children 2)\n ExpressionList (children 1)\n  Literal a\n ExpressionList",
    ],
)
def test_tree_with_right_counts_passes(tree):
    check(tree, build_catalogue("t", tables=[], columns=[], system_columns=[]))


@pytest.mark.parametrize(
    "tree",
    [
        "",
        "SelectQuery (children 1)",
        "SelectQuery (children 1)\n Literal a\n Literal b",
        "SelectQuery\nSelectQuery",
        "SelectQuery\n Literal a",
        "SelectQuery (children 1)\n  Literal a",
        "SelectQuery (children 2)\n ExpressionList (children 1)\n Literal a",
        "SelectQuery (children 1)\n Identifier a (children 1)\n  Literal b",
        "SelectQuery (children x)",
        "SelectQuery (children 99999999999999999999)",
        " SelectQuery",
        "(alias x)",
    ],
    ids=ascii,
)
def test_tree_with_wrong_counts_is_refused(tree):
    with pytest.raises(SqlRefusedError):
        check(tree, build_catalogue("t", tables=[], columns=[], system_columns=[]))
