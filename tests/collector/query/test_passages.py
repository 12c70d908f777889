"""Passages with a hit are read as text, whatever form the sender's messages have."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import talk
from tracereel_collector.query.passages import readable

CUT = "…I am planning a trip to Lima."


@pytest.mark.parametrize(
    ("passage", "read"),
    [
        ("plain, text [1] with {x} “quoted”: yes", "plain, text [1] with {x} “quoted”: yes"),
        ('he said "go"\\nand left', 'he said "go" and left'),
        ('…","content":"In\\nLima?","id":"a39"}],"n":7}', "… In Lima? · n: 7"),
        (
            f'{CUT}"}},{{"role":"assistant","content":"**When**?"}},{{"ro…',
            f"{CUT} · **When**? · ro…",
        ),
        (f'{CUT}"}}, {{"role": "assistant", "content": "When?"}}]', f"{CUT} · When?"),
        ('{"city":"Lima","ids":[],"at":null} {"rain": [9]}', "city: Lima · rain: 9"),
        ('"arguments":"{\\"city\\":\\"Lima\\"}"}],"type":"tool_call"}', "city: Lima"),
        (
            '["a day in Lima","two in Cusco"] [MALI](https://x)',
            "a day in Lima · two in Cusco · [MALI](https://x)",
        ),
    ],
)
def test_a_passage_has_the_texts_and_not_the_json_around_them(passage, read):
    assert readable(passage, ["lima"]) == read


def test_a_field_of_the_form_stays_if_it_is_searched_for():
    assert readable('{"status":"lost","id":"p1","type":"parcel"}', ["lost"]) == "status: lost"


@pytest.mark.parametrize("form", ["chat", "responses", "anthropic", "google", "gen_ai", "vercel"])
def test_messages_of_every_form_are_read_as_their_texts(form):
    said = readable(json.dumps(getattr(talk, form)(), ensure_ascii=False)[:2000], ["lima"])

    assert "I am planning a trip to Lima." in said
    assert "Lovely! **When** do you travel?" in said
    assert not {'"}', '{"', '":', '"]', "role", "text:"} & set(said.split())
    assert '{"' not in said
    assert '":' not in said


@given(st.text('ab"\\:,[]{} …·', max_size=240))
def test_any_text_is_read_and_is_not_longer(passage):
    assert len(readable(passage, ["a"])) <= len(passage) + 3 * passage.count('"') + 2
