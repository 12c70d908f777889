"""JSON printed by commands: the same document, without terminal control characters."""

import io
import json
import shlex
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from tracereel.cli.export import _Shown
from tracereel.cli.terminal import clean, harmless_json, quoted

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30) | st.sampled_from(
    ["\x9b31m", "\x7f", "\u202eevil", "\ufeff", "\U000e0041", "\x1b]0;x\x07", "ñ😀"]
)


def acts(text: str) -> bool:
    return any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in text)


@given(st.dictionaries(texts, texts, max_size=4))
def test_json_output_escapes_control_characters(document: dict[str, str]) -> None:
    shown = harmless_json(json.dumps(document, ensure_ascii=False))

    assert json.loads(shown) == document
    assert not acts(shown)
    assert not {"\u202e", "\u2066", "\ufeff", "\u200e"} & set(shown)


@given(st.lists(texts, max_size=4), st.integers(1, 5))
def test_lines_for_a_terminal_are_the_same_however_they_come(rows: list[str], size: int) -> None:
    data = "".join(json.dumps({"v": each}, ensure_ascii=False) + "\n" for each in rows).encode()
    out = io.BytesIO()
    shown = _Shown(out)
    for at in range(0, len(data), size):
        shown.write(data[at : at + size])

    lines = out.getvalue().decode().split("\n")
    assert not any(map(acts, lines))
    assert [json.loads(line)["v"] for line in lines if line] == rows


@given(texts)
def test_quoted_argument_is_one_shell_word(text: str) -> None:
    assert shlex.split(quoted(text)) == [clean(text)]
