"""Ids of a live stream: one number, or the last number of each member."""

import pytest

from tracereel_collector.errors import BadRequestError
from tracereel_collector.http.tail_group import places_of


def test_ids_name_the_last_number_of_each_member():
    assert places_of(None, "a") == places_of("", "a") == {}
    assert places_of("17", "") == {"": 17}
    assert places_of("17", "a") == {"a": 17}
    assert places_of("a.1~b-2.x.30", "a") == {"a": 1, "b-2.x": 30}


@pytest.mark.parametrize(
    ("text", "own"),
    [("-1", "a"), ("x", "a"), ("a.", "a"), ("a.1~", "a"), ("a.1~~b.2", "a"), ("A.1", "a"),
     ("a.1", ""), ("9" * 20, "a"), ("a." + "9" * 20, "a"), ("~", "a")],
)  # fmt: skip
def test_other_texts_are_refused(text, own):
    with pytest.raises(BadRequestError):
        places_of(text, own)
