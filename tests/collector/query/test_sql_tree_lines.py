"""A name in a statement cannot look like a line of its tree."""

import pytest

from tracereel_collector.query.sql.tree import _nodes

ENDS_FOR_PYTHON = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\r"


@pytest.mark.parametrize("end", ENDS_FOR_PYTHON, ids=ascii)
def test_a_name_with_an_odd_character_is_one_node(end):
    tree = f"SelectQuery (children 1)\n Identifier a{end} Literal b\n Literal c\n"

    nodes = list(_nodes(tree))

    assert [node.kind for node in nodes] == ["SelectQuery", "Identifier", "Literal"]
