"""Built-in rules for secrets and personal data, and a cheap check that avoids running them.

`suspicious` runs on every text; the exact rules run only if it returns True. Every pattern also
matches a secret that was cut off at the end of a summary (`…`). Every rule takes linear time.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_KEY: Final = "[A-Za-z0-9_-]"
_PREFIXES: Final = (
    r"sk-(?:ant|proj|or|svcacct|admin|lf)-",
    r"(?:sk|rk|pk)_(?:live|test)_",
    r"whsec_",
    r"gh[pousr]_",
    r"github_pat_",
    r"glpat-",
    r"xox[abeoprs]-",
    r"xapp-",
    r"AIza",
    r"GOCSPX-",
    r"hf_",
    r"gsk_",
    r"r8_",
    r"xai-",
    r"pplx-",
    r"tvly-",
    r"nvapi-",
    r"npm_",
    r"pypi-",
    r"dop_v1_",
    r"shpat_",
    r"lsv2_[a-z]{2}_",
    r"trk_",
)
_QUOTED: Final = r"""\\?"(?:[^"\\]|\\[^"])*(?:\\?"|\Z)|\\?'(?:[^'\\]|\\[^'])*(?:\\?'|\Z)"""
_NAMES: Final = (
    r"passw(?:or)?d|passphrase|pwd|secret(?:[_-]?(?:access[_-]?)?key)?|api[_-]?key|private[_-]?key"
    r"|access[_-]?key|(?:access|refresh|auth|id|bearer|session|api|csrf|xsrf|security)[_-]?token"
    r"|credentials?|authorization"
)

Check = Callable[["re.Match[str]"], bool]
MARK: Final = "[redacted:"


def mark(name: str) -> str:
    """Return the mark that replaces a redacted text."""
    return f"{MARK}{name}]"


@dataclass(frozen=True, slots=True)
class Pattern:
    """Rule with a name, a pattern and an optional check of each match.

    If the pattern has a group `hide`, only that group is replaced.
    """

    name: str
    pattern: "re.Pattern[str]"
    check: Check | None = None

    def apply(self, text: str, count: Callable[[str], None]) -> str:
        """Return the text with every match replaced by a mark."""
        return self.pattern.sub(lambda match: self._hide(match, count), text)

    def _hide(self, match: "re.Match[str]", count: Callable[[str], None]) -> str:
        if self.check is not None and not self.check(match):
            return match.group()
        return hidden(self.name, match, count)


@dataclass(frozen=True, slots=True)
class Alternative:
    """Pattern that matches a whole run of characters, with a check of the run.

    The check replaces a lookahead over the run, which would take quadratic time because it repeats
    at each possible start of a match. A rejected run is not scanned again, except for its last
    `overlap` characters.
    """

    pattern: "re.Pattern[str]"
    check: Check | None = None
    overlap: int = 0

    def search(self, text: str, start: int) -> "re.Match[str] | None":
        """Return the first match from `start` on that passes the check."""
        while (match := self.pattern.search(text, start)) is not None:
            if self.check is None or self.check(match):
                return match
            start = max(match.start() + 1, match.end() - self.overlap)
        return None


@dataclass(frozen=True, slots=True)
class RunPattern:
    """Rule with several alternatives; the leftmost match wins, then the first alternative."""

    name: str
    alternatives: tuple[Alternative, ...]

    def apply(self, text: str, count: Callable[[str], None]) -> str:
        """Return the text with every match replaced by a mark."""
        found = [each.search(text, 0) for each in self.alternatives]
        parts, end = [], 0
        while matches := [match for match in found if match is not None]:
            match = min(matches, key=re.Match.start)
            parts += [text[end : match.start()], hidden(self.name, match, count)]
            end = match.end()
            # Later matches stay valid, so each alternative reads the text once.
            for index, other in enumerate(found):
                if other is not None and other.start() < end:
                    found[index] = self.alternatives[index].search(text, end)
        return "".join([*parts, text[end:]])


def hidden(name: str, match: "re.Match[str]", count: Callable[[str], None]) -> str:
    """Return the replacement of a match."""
    whole = match.group()
    if "hide" not in match.re.groupindex:
        count(name)
        return mark(name)
    secret = match.group("hide")
    if MARK in secret:
        return whole
    count(name)
    before = whole[: match.start("hide") - match.start()]
    after = whole[match.end("hide") - match.start() :]
    quote = secret[0] if len(secret) > 1 and secret[0] == secret[-1] in "\"'" else ""
    return f"{before}{quote}{mark(name)}{quote}{after}"


def _has_digit(match: "re.Match[str]") -> bool:
    start = match.start("hide") if "hide" in match.re.groupindex else match.start()
    # Include the character behind the run, which may be a digit of another script.
    return _digit(match.string, start, match.end() + 1) is not None


def _has_rest(match: "re.Match[str]") -> bool:
    return match["rest"] is not None


def _is_card(match: "re.Match[str]") -> bool:
    digits = match.group().replace(" ", "").replace("-", "")
    return _CARD.fullmatch(digits) is not None and luhn(digits)


def luhn(digits: str) -> bool:
    """Return whether the check digit of a card number is valid."""
    total = 0
    for index, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + index % 2)
        total += value - 9 * (value > 9)
    return total % 10 == 0


def _is_iban(match: "re.Match[str]") -> bool:
    compact = match.group().replace(" ", "")
    if not 15 <= len(compact) <= 34 or not _long_number(match.group()):
        return False
    return int("".join(str(int(each, 36)) for each in compact[4:] + compact[:4])) % 97 == 1


def _is_phone(match: "re.Match[str]") -> bool:
    return 8 <= sum(each.isdigit() for each in match.group()) <= 15


_digit: Final = re.compile(r"\d").search
_CARD: Final = re.compile(
    r"4\d{15}|5[1-5]\d{14}|2(?:2[2-9]|[3-6]\d|7[01])\d{13}|3[47]\d{13}|6(?:011|5\d\d|4[4-9]\d)\d{12}"
    r"|35[2-8]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|62\d{14,17}"
)

# A new pattern needs its marker in `suspicious`; a property test fails otherwise.
PATTERNS: Final = (
    Pattern(
        "private_key",
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}(?:PRIVATE KEY|PRIVA|…)[\s\S]*?"
            r"(?:-----END [A-Z0-9 ]{0,40}-----|\Z)"
        ),
    ),
    Pattern(
        "cookie",
        re.compile(
            r"""(?i)\bcookie\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?(?P<hide>[\w!#$%&*.^`|~+-]+=[^"'\r\n]*)"""
        ),
    ),
    Pattern(
        "secret",
        re.compile(
            rf"""(?i)(?<![a-z])(?:[a-z0-9]{{1,20}}+[_.-]){{0,4}}(?:{_NAMES})\\?["']?\s{{0,4}}[:=]\s{{0,4}}"""
            rf"""(?P<hide>{_QUOTED}|(?:bearer|basic|token)\s+[^\s,;&"'}})\]]+|[^\s,;&"'}})\]]{{3,}})"""
        ),
    ),
    RunPattern(
        "secret",
        (
            Alternative(
                re.compile(
                    r"""(?i)(?<![a-z_-])token\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?"""
                    r"""(?P<hide>[^\s,;&"'})\]]{8,})"""
                ),
                _has_digit,
                overlap=len("token\\"),  # name of the next value, before a quote or blank
            ),
        ),
    ),
    Pattern(
        "bearer_token",
        re.compile(
            r"(?i)\b(?:bearer|basic)\s+(?P<hide>(?=[a-z._~+/-]*[0-9=…])[a-z0-9._~+/-]{8,}[=…]{0,2})"
        ),
    ),
    RunPattern(
        "jwt",
        (
            Alternative(
                re.compile(r"(?<![A-Za-z0-9])eyJ[\w-]{8,}+(?P<rest>…|\.[\w-]*(?:…|\.[\w-]*…?)?)?"),
                _has_rest,
            ),
        ),
    ),
    RunPattern(
        "api_key",
        (
            Alternative(
                re.compile(
                    rf"(?<![A-Za-z0-9])(?:(?:{'|'.join(_PREFIXES)})(?:{_KEY}{{10,}}|{_KEY}*…)"
                    rf"|SG\.{_KEY}{{10,}}(?:\.{_KEY}*)?|ya29\.{_KEY}{{10,}})"
                )
            ),
            Alternative(re.compile(rf"(?<![A-Za-z0-9])sk-{_KEY}{{16,}}"), _has_digit),
            Alternative(re.compile(rf"(?<![A-Za-z0-9])sk-{_KEY}*+(?P<rest>…)?"), _has_rest),
        ),
    ),
    Pattern(
        "aws_key",
        re.compile(
            r"(?<![A-Za-z0-9])A(?:KIA|SIA|ROA|IDA)(?:[A-Z0-9]{16}(?![A-Za-z0-9])|[A-Z0-9]*…)"
        ),
    ),
    Pattern(
        "password",
        re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@]*:(?P<hide>[^\s/@]+)(?=@|…)"),
    ),
    Pattern(
        "email",
        re.compile(
            r"(?<![\w.%+-])(?!git@)[\w.%+-]+@(?:(?:[\w-]+\.)+[^\W\d_]{2,24}(?![\w-])|[\w.-]*…)"
        ),
    ),
    Pattern(
        "iban",
        re.compile(r"(?<!\w)[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)"),
        _is_iban,
    ),
    Pattern(
        "card",
        re.compile(
            r"(?<![\w.+-])(?:[0-9]{14,19}|[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?"
            r"|[0-9]{4}([ -])[0-9]{6}\2[0-9]{4,5})(?![\w-])"
        ),
        _is_card,
    ),
    Pattern(
        "phone",
        re.compile(
            r"(?<![\w+./-])(?:\+\d{1,3}(?:[ .-]?\(\d{1,4}\))?(?:[ .-]?\d{1,4}){2,5}"
            r"|(?:\+?1[ .-])?\(\d{3}\) ?\d{3}[ .-]\d{4}|\d{3}-\d{3}-\d{4})(?![\w-])"
        ),
        _is_phone,
    ),
)
"""Rules in order: patterns that contain others come first."""

_ENDS: Final = "(?i:[dtnesly])"
"""Last letters of the names below; checked first because nearly every `:` fails here."""
_FIVE: Final = "(?i:sword|asswd|ecret|token|ookie|hrase|ation|ntial)"
_THREE: Final = "(?i:pwd|key|als)"


def _look_after_names(sign: str) -> str:
    """Build a pattern for `:` or `=` after a sensitive name, or after any white space."""
    looks = [
        f"(?<={_ENDS}{gap}{sign})(?:(?<={_FIVE}{gap}{sign})|(?<={_THREE}{gap}{sign}))"
        for gap in ("", r"\\", r"[\"']", r"\\[\"']")
    ]
    return rf"{sign}(?:(?<=\s{sign})|{'|'.join(looks)})"


# Each begins with one rare character, which `re` finds very fast.
_after_hyphen: Final = re.compile(
    r"-(?:(?<=[ktpixyX]-)(?:(?<=sk-)|(?<=glpat-)|(?<=xapp-)|(?<=xai-)|(?<=pypi-)|(?<=pplx-)|(?<=tvly-)"
    r"|(?<=nvapi-)|(?<=GOCSPX-))|(?<=xox.-)|----BEGIN |\d{3}-\d{4})"
).search
_after_underscore: Final = re.compile(
    r"_(?:(?<=gh[pousr]_)|(?<=[_t]_)(?:(?<=_live_)|(?<=_test_)|(?<=_pat_)|(?<=shpat_))|(?<=hf_)"
    r"|(?<=gsk_)|(?<=trk_)|(?<=r8_)|(?<=npm_)|(?<=whsec_)|(?<=_v1_)|(?<=lsv2_)|(?<=_live_))"
).search
_upper: Final = re.compile(r"A(?:KIA|SIA|ROA|IDA|Iza)").search
_plus: Final = re.compile(r"\+\d").search
_area_code: Final = re.compile(r"\) ?\d{3}").search
_named: Final = re.compile(_look_after_names(":")).search
_assigned: Final = re.compile(_look_after_names("=")).search
# Two patterns because one that begins with a class, or ignores the case, is several times as slow.
_lower_scheme: Final = re.compile(r"b(?i:earer|asic)\s").search
_upper_scheme: Final = re.compile(r"B(?i:earer|asic)\s").search
_SHAPE: Final = bytes(
    ord("0") if 48 <= code <= 57 else 0 if code in b" -" else code for code in range(256)
)


def _long_number(text: str) -> bool:
    """Return whether a text has eight digits in a row, or four and four.

    Every card and account number has them. Three times as fast as a pattern because no character
    class is searched.
    """
    shape = text.encode("utf-8", "surrogatepass").translate(_SHAPE)
    # Not with `in`, which raises and clears an exception internally.
    return shape.find(b"00000000") >= 0 or shape.find(b"0000\x000000") >= 0


def suspicious(text: str) -> bool:
    """Return whether a text may match a built-in rule; False only if none does."""
    # Not a loop, which would double the cost. A sign after white space counts only if a name is
    # in front of the white space, which a second search of the text without any decides.
    return bool(
        "@" in text
        or ("-" in text and _after_hyphen(text))
        or ("_" in text and _after_underscore(text))
        or "eyJ" in text
        or ("A" in text and _upper(text))
        or ("+" in text and _plus(text))
        or (")" in text and _area_code(text))
        or (":" in text and _named(text) and _named("".join(text.split())))
        or ("=" in text and _assigned(text) and _assigned("".join(text.split())))
        or "SG." in text
        or "ya29." in text
        or ("b" in text and _lower_scheme(text))
        or ("B" in text and _upper_scheme(text))
        or ("…" in text and "://" in text)  # password of a URL that is cut off before its `@`
        or _long_number(text)
    )


_SENSITIVE: Final = frozenset(
    {
        "pwd",
        "passwd",
        "authorization",
        "cookie",
        "cookies",
        "setcookie",
        "credential",
        "credentials",
    }
    | {"accesskey", "cvv", "cvc", "ssn", "cardnumber", "creditcard", "xauth"}
    | {f"{kind}token" for kind in ("access", "refresh", "auth", "id", "bearer", "session")}
    | {f"{kind}token" for kind in ("api", "csrf", "xsrf", "security")}
)
_SENSITIVE_ENDS: Final = ("password", "secret", "apikey", "privatekey", "secretkey", "passphrase")


def is_sensitive_key(key: str) -> bool:
    """Return whether a dictionary key names a secret."""
    plain = key.lower().replace("_", "").replace("-", "").replace(" ", "")
    return plain in _SENSITIVE or plain.endswith((*_SENSITIVE_ENDS, "secretaccesskey"))
