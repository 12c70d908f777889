"""Class test: the time of every regular expression grows linearly with hostile input.

Every pattern in the source of both packages is found (`tests.support.pattern_walk`), attacked with
inputs generated from its own parse tree (`tests.support.attacks`) in the modes it is used in, and
timed (`tests.support.growth`): twice the input takes at most 2.6 times as long. A pattern that is
made from local variables has an entry in `MADE_AT_RUN_TIME`; one that the generator cannot attack,
or that has no entry, fails the test. The page's patterns run in Node, where it is installed.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support.attacks import Attack, attacks
from tests.support.growth import LIMIT, MOST, excess
from tests.support.pattern_walk import MODES, Found, all_patterns, modules
from tests.support.vendored import VENDORED
from tracereel._redact import secret_patterns
from tracereel_collector.ingest.quick import QuickCheck

WEB = Path(str(modules()["tracereel_collector"].__file__)).parent / "web"

SECRET_RULES = {
    "api_key": r"(?<![A-Za-z0-9])(?:(?:sk-(?:ant|proj)-|hf_)(?:[\w-]{10,}|[\w-]*…)"
    r"|sk-(?=[\w-]*\d)[\w-]{16,}|sk-[\w-]*…)",
    "token": r"(?i)(?<![a-z_-])token\s{0,4}[:=](?P<hide>(?=[^\s,;]*\d)[^\s,;]{8,})",
    "jwt": r"(?<![A-Za-z0-9])eyJ[\w-]{8,}(?:…|\.[\w-]*(?:…|\.[\w-]*…?)?)",
}
"""Rules of an earlier version, shortened."""
SUPERLINEAR = [
    *SECRET_RULES.values(),
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|ms|s|m|h))+|[+-]?0",
    r"\$([a-z]*)\$.*?\$\1\$",
    r"\s+$",
    r"\w+@\w+",
    r"^(a+)+$",
    r"(?:a|a)*b",
    r"(.*)x(.*)y",
]
QUICK = QuickCheck(max_event_bytes=LIMIT)
MADE_AT_RUN_TIME: dict[tuple[str, str], Callable[[], Iterable["re.Pattern[str]"]] | str] = {
    ("tracereel.providers.capabilities", "re.escape(family) + '(?![0-9])'"): (
        lambda: [re.compile(re.escape("claude-3-5") + "(?![0-9])")]
    ),
    (
        "tracereel._redact.rules",
        "self.pattern",
    ): "a rule of the program's own: tests of its windows",
    (
        "tracereel._redact.rules",
        "rule.pattern",
    ): "a rule of the program's own: tests of its windows",
    ("tracereel.tape.codec_types", "text"): "the program's own value, given back to it",
    (
        "tracereel_collector.ingest.quick",
        "f\"(?:(?:{pattern.removeprefix('^').removesuffix('$')})\\n)*\"",
    ): QUICK._patterns.values,
}
"""Module and source → examples of the patterns, or the reason why there are none."""


def reads(pattern: "re.Pattern[Any]", mode: str) -> Callable[[Any], object]:
    """Apply a pattern to a text in one mode."""
    if mode != "search":
        return getattr(pattern, mode)  # type: ignore[no-any-return]
    return lambda text: [None for _ in pattern.finditer(text)]


def worst(pattern: "re.Pattern[Any]", modes: Iterable[str]) -> str | None:
    """Return the first attack under which the time grows too fast, and the growth."""
    is_text = isinstance(pattern.pattern, str)

    def making(attack: Attack) -> Callable[[int], str | bytes]:
        if is_text:
            return attack.text
        return lambda size: attack.text(size).encode("utf-8", "surrogateescape")

    found = attacks(pattern.pattern, pattern.flags & ~re.UNICODE if is_text else pattern.flags)
    for mode in modes:
        run = reads(pattern, mode)
        for attack in found:
            if (grown := excess(run, making(attack))) is not None:
                return f"{mode} of {attack}: {grown}; at most {MOST} is accepted"
    return None


@pytest.mark.parametrize("source", SUPERLINEAR)
def test_generator_finds_superlinear_patterns(source: str) -> None:
    assert worst(re.compile(source), MODES) is not None


@pytest.mark.parametrize(
    "source", [r"[a-z]{1,20}", r"\d++(?:\.\d*+)?x", r'"[^"]*"', r"eyJ[\w-]*+(?:\.[\w-]*)?"]
)
def test_generator_accepts_linear_patterns(source: str) -> None:
    assert worst(re.compile(source), ["match"]) is None


def resolved(found: Found) -> list["re.Pattern[Any]"]:
    if found.pattern is not None:
        return [found.pattern]
    examples = MADE_AT_RUN_TIME[found.where, found.source]
    return [] if isinstance(examples, str) else list(examples())


def test_every_pattern_made_at_run_time_has_a_case() -> None:
    unresolved = {(each.where, each.source) for each in all_patterns() if each.pattern is None}

    assert unresolved == set(MADE_AT_RUN_TIME)


def test_walk_finds_patterns_of_every_form() -> None:
    found = {(each.where, each.modes) for each in all_patterns()}

    assert ("tracereel._redact.secret_patterns", MODES) in found  # arguments of a rule
    assert ("tracereel_collector.query.window", ("fullmatch",)) in found  # a constant's use
    assert ("tracereel.providers.names", ("search",)) in found  # inside a function
    assert ("tracereel.events", ("search",)) in found  # a keyword `pattern`
    assert len(found) > 50


def test_time_of_every_pattern_grows_linearly() -> None:
    seen: dict[tuple[str | bytes, int], set[str]] = {}
    too_slow = []
    for found in all_patterns():
        for pattern in resolved(found):
            done = seen.setdefault((pattern.pattern, pattern.flags), set())
            modes = [mode for mode in found.modes if mode not in done]
            done.update(modes)
            if (grown := worst(pattern, modes)) is not None:
                too_slow.append(f"{found.where}: {found.source[:200]}: {grown}")

    assert too_slow == []


@pytest.mark.parametrize("rule", secret_patterns.PATTERNS, ids=lambda rule: rule.name)
def test_time_of_every_redaction_rule_grows_linearly(
    rule: secret_patterns.Pattern | secret_patterns.RunPattern,
) -> None:
    """Covers the whole rule: its alternatives, checks, and the reassembled text."""
    patterns = (
        [rule.pattern]
        if isinstance(rule, secret_patterns.Pattern)
        else [each.pattern for each in rule.alternatives]
    )
    old = SECRET_RULES.get(rule.name, "")
    for source in [*(each.pattern for each in patterns), old]:
        for attack in attacks(source)[::2] if source else []:
            grown = excess(lambda text: rule.apply(text, lambda _name: None), attack.text)
            assert grown is None, attack


NODE = shutil.which("node")
SCRIPT = Path(__file__).parent / "support" / "web_patterns.cjs"


def as_python(source: str) -> str:
    """Return a JavaScript pattern in Python's notation."""
    source = re.sub(r"\(\?<([A-Za-z_]\w*)>", r"(?P<\1>", source).replace(r"\/", "/")
    source = re.sub(r"\\u\{([0-9a-f]+)\}", lambda found: rf"\U{int(found[1], 16):08x}", source)
    return source.replace("[[", r"[\[")


@pytest.mark.skipif(NODE is None, reason="Node is not installed")
def test_time_of_every_pattern_of_the_page_grows_linearly() -> None:
    def node(command: str, given: object) -> Any:
        done = subprocess.run(
            [str(NODE), "--expose-internals", "--no-warnings", str(SCRIPT), command],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)

    # Those of other projects are theirs to test; what is given to them is bounded.
    files = [str(path) for path in sorted(WEB.rglob("*.js")) if path not in VENDORED]
    found = node("list", files)
    assert found["made"] == [], "patterns made at run time are not attacked: write them as literals"
    assert len(found["literals"]) > 5
    known_bad = {"file": "test", "pattern": r"\s+$", "flags": "g"}
    cases = [
        {**each, "attacks": [vars(attack) for attack in attacks(as_python(each["pattern"]))]}
        for each in [known_bad, *found["literals"]]
    ]
    grown = node("measure", {"cases": cases, "most": MOST})

    assert [each["file"] for each in grown] == ["test"]
