"""The cheap check never calls a text clean that the exact rules would change."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.secret_samples import CORPUS
from tracereel._redact.event_redaction import Privacy
from tracereel._redact.secret_patterns import PATTERNS, Pattern, RunPattern, suspicious
from tracereel.redaction import Redaction, redact

LETTERS = {"i": "iI\u0130\u0131", "s": "sS\u017f", "k": "kK\u212a"}
"""Letters with more than two forms that a pattern that ignores the case accepts."""
SIGNS = {":": ":=", "=": ":=", '"': "\"'", "'": "\"'", " ": " "}
BLANKS = st.text(" \t\n\r\x0b\x1c\xa0\u2003", max_size=5)
QUOTES = st.sampled_from(["", "", '"', "'", "\\", '\\"', "\\'"])
NAMED = [
    f"{name}:{value}"
    for name in (
        *("password", "passwd", "passphrase", "pwd", "secret", "secret_key", "api-key", "apikey"),
        *("private_key", "access_key", "refresh_token", "credential", "credentials", "token"),
        *("authorization", "cookie", "db.prod_password"),
    )
    for value in ("hunter2xyz", "session=hunter2xyz")
]


@st.composite
def disguised(draw: st.DrawFn) -> str:
    """A sample with the case of letters changed, and quotes and white space around its signs."""
    sample = draw(st.sampled_from([*NAMED, *(sample for _, sample in CORPUS)]))
    cased = draw(st.sampled_from(["as is", "lower", "upper", "any"]))
    if cased == "any":
        forms = [LETTERS.get(each.lower(), each.lower() + each.upper()) for each in sample]
        sample = "".join(draw(st.sampled_from(form)) for form in forms)
    elif cased != "as is":
        sample = sample.lower() if cased == "lower" else sample.upper()
    spaced = draw(st.booleans())
    parts = []
    for part in re.split(r"""([:="' ])""", sample):
        if spaced and part in SIGNS:
            sign = draw(st.sampled_from(SIGNS[part]))
            part = draw(QUOTES) + draw(BLANKS) + sign + draw(BLANKS) + draw(QUOTES)
        parts.append(part)
    before, after = draw(
        st.sampled_from([("", ""), ("x = 1; ", " : y"), ('{"', '"}'), ("é ", "…")])
    )
    return before + "".join(parts) + after


@given(disguised())
@example('{"password" : "hunter2xyz"}')
@example("password\n=\thunter2xyz")
@example("password\\ = hunter2xyz")
@example("Basic dXNlcjpwYXNzd29yZA==")
@example("BEARER abcdefghijk1lmnop")
@example("bearer\tabcdefghijk1lmnop")
def test_whatever_the_rules_change_is_suspicious(text: str) -> None:
    assert suspicious(text) or redact(text) == text


@pytest.mark.parametrize("rule", PATTERNS, ids=lambda rule: rule.name)
@given(st.data())
def test_whatever_a_rule_is_made_for_is_suspicious(
    rule: Pattern | RunPattern, data: st.DataObject
) -> None:
    patterns = [
        each.pattern for each in (rule.alternatives if isinstance(rule, RunPattern) else [rule])
    ]
    text = data.draw(st.sampled_from(patterns).flatmap(st.from_regex))
    assert suspicious(text) or rule.apply(text, lambda _name: None) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"password" : "hunter2xyz"}', '{"password" : "[redacted:secret]"}'),
        ("Basic dXNlcjpwYXNzd29yZA==", "Basic [redacted:bearer_token]"),
        ("BEARER abcdefghijk1lmnop", "BEARER [redacted:bearer_token]"),
    ],
)
def test_spaced_and_upper_case_secrets_are_hidden(text: str, expected: str) -> None:
    assert Privacy(Redaction(), capture_content=True).text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    y = x + 1\n    return {'a' : y}\n",
        "Réponse : la salle est libre",
        "the bear : basically, a barer token",
    ],
)
def test_signs_after_white_space_are_not_suspicious_by_themselves(text: str) -> None:
    assert not suspicious(text)
