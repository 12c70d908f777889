"""Redaction rules rewritten for linear time hide the same text as before."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from tracereel._redact import secret_patterns
from tracereel._redact.event_redaction import Privacy
from tracereel.redaction import Redaction

KEY = "[A-Za-z0-9_-]"
LOOKAHEAD_RULES = {
    "secret": re.compile(
        r"""(?i)(?<![a-z_-])token\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?"""
        r"""(?P<hide>(?=[^\s,;&"'})\]]*\d)[^\s,;&"'})\]]{8,})"""
    ),
    "jwt": re.compile(r"(?<![A-Za-z0-9])eyJ[\w-]{8,}(?:…|\.[\w-]*(?:…|\.[\w-]*…?)?)"),
    "api_key": re.compile(
        rf"(?<![A-Za-z0-9])(?:(?:{'|'.join(secret_patterns._PREFIXES)})(?:{KEY}{{10,}}|{KEY}*…)"
        rf"|sk-(?={KEY}*\d){KEY}{{16,}}|sk-{KEY}*…"
        rf"|SG\.{KEY}{{10,}}(?:\.{KEY}*)?|ya29\.{KEY}{{10,}})"
    ),
}
"""Reference rules as single patterns with quadratic time."""
PIECES = [
    *("sk-", "sk-ant-", "sk_live_", "ghp_", "hf_", "SG.", "ya29.", "AIza", "eyJ", "token", "toKen"),
    *(
        ":",
        "=",
        '"',
        "'",
        "\\",
        " ",
        "\t",
        "-",
        "_",
        ".",
        "…",
        ",",
        "}",
        "a",
        "bc",
        "defghijk",
        "1",
    ),
    *("23", "٣", "é", "0123456789abcdef", "abcdefghijklmnop", "[redacted:x]"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
@example('token:xxx.token"=abc12345678')
@example("sk-abc-ghp_abcdefghijkl")
@example("sk-abcdefghijklmnopq٣")
def test_linear_rules_hide_what_lookahead_rules_hid(text: str) -> None:
    rules = [
        rule for rule in secret_patterns.PATTERNS if isinstance(rule, secret_patterns.RunPattern)
    ]
    assert [rule.name for rule in rules] == list(LOOKAHEAD_RULES)
    for rule in rules:
        old, now = [], []
        expected = secret_patterns.Pattern(rule.name, LOOKAHEAD_RULES[rule.name]).apply(
            text, old.append
        )
        assert rule.apply(text, now.append) == expected
        assert now == old


def test_keys_that_become_equal_stay_apart() -> None:
    clean = Privacy(Redaction(), capture_content=True)
    data, changed = clean.payload({f"{number}@b.example": number for number in range(4)})

    assert changed
    assert data == {
        "[redacted:email]": 0,
        "[redacted:email]'": 1,
        "[redacted:email]'2": 2,
        "[redacted:email]'3": 3,
    }
