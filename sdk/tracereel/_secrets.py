"""What secrets and personal data look like: the built-in rules, and a quick look that spares them.

`suspicious` is asked of everything and is cheap; the rules are exact and run only after it. Every
pattern also takes a secret that was cut off at the end of a summary (`…`).
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
    """What stands where something was hidden."""
    return f"{MARK}{name}]"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One thing to hide: its name in the mark, what it looks like, what else must be true of it.

    What stands before the group `hide` stays; without the group all of the match goes.
    """

    name: str
    pattern: "re.Pattern[str]"
    check: Check | None = None

    def apply(self, text: str, count: Callable[[str], None]) -> str:
        """The text with every match replaced by a mark."""
        if "hide" in self.pattern.groupindex:
            return self.pattern.sub(lambda match: self._hide_group(match, count), text)
        return self.pattern.sub(lambda match: self._hide_all(match, count), text)

    def _hide_all(self, match: "re.Match[str]", count: Callable[[str], None]) -> str:
        if self.check is not None and not self.check(match):
            return match.group()
        count(self.name)
        return mark(self.name)

    def _hide_group(self, match: "re.Match[str]", count: Callable[[str], None]) -> str:
        whole, hidden = match.group(), match.group("hide")
        if MARK in hidden:
            return whole
        count(self.name)
        before = whole[: match.start("hide") - match.start()]
        after = whole[match.end("hide") - match.start() :]
        quote = hidden[0] if len(hidden) > 1 and hidden[0] == hidden[-1] in "\"'" else ""
        return f"{before}{quote}{mark(self.name)}{quote}{after}"


def _is_card(match: "re.Match[str]") -> bool:
    digits = match.group().replace(" ", "").replace("-", "")
    return _CARD.fullmatch(digits) is not None and luhn(digits)


def luhn(digits: str) -> bool:
    """Whether the check digit of a card number is right."""
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


_CARD: Final = re.compile(
    r"4\d{15}|5[1-5]\d{14}|2(?:2[2-9]|[3-6]\d|7[01])\d{13}|3[47]\d{13}|6(?:011|5\d\d|4[4-9]\d)\d{12}"
    r"|35[2-8]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|62\d{14,17}"
)

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
            rf"""(?i)(?<![a-z])(?:[a-z0-9]{{1,20}}[_.-]){{0,4}}(?:{_NAMES})\\?["']?\s{{0,4}}[:=]\s{{0,4}}"""
            rf"""(?P<hide>{_QUOTED}|(?:bearer|basic|token)\s+[^\s,;&"'}})\]]+|[^\s,;&"'}})\]]{{3,}})"""
        ),
    ),
    Pattern(
        "secret",
        re.compile(
            r"""(?i)(?<![a-z_-])token\\?["']?\s{0,4}[:=]\s{0,4}\\?["']?"""
            r"""(?P<hide>(?=[^\s,;&"'})\]]*\d)[^\s,;&"'})\]]{8,})"""
        ),
    ),
    Pattern(
        "bearer_token",
        re.compile(
            r"(?i)\b(?:bearer|basic)\s+(?P<hide>(?=[a-z._~+/-]*[0-9=…])[a-z0-9._~+/-]{8,}[=…]{0,2})"
        ),
    ),
    Pattern("jwt", re.compile(r"(?<![A-Za-z0-9])eyJ[\w-]{8,}(?:…|\.[\w-]*(?:…|\.[\w-]*…?)?)")),
    Pattern(
        "api_key",
        re.compile(
            rf"(?<![A-Za-z0-9])(?:(?:{'|'.join(_PREFIXES)})(?:{_KEY}{{10,}}|{_KEY}*…)"
            rf"|sk-(?={_KEY}*\d){_KEY}{{16,}}|sk-{_KEY}*…"
            rf"|SG\.{_KEY}{{10,}}(?:\.{_KEY}*)?|ya29\.{_KEY}{{10,}})"
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
"""In this order: what contains others comes first. Applied to a string that looked suspicious."""

_ENDS: Final = "(?i:[dtnesly])"
"""Last letters of the names below: looked at first, because nearly every `:` fails here."""
_FIVE: Final = "(?i:sword|asswd|ecret|token|ookie|hrase|ation|ntial)"
_THREE: Final = "(?i:pwd|key|als)"


def _look_after_names(sign: str) -> str:
    """A `:` or `=` right after the end of a sensitive name, with a quote or blank between or not."""
    looks = [
        f"(?<={_ENDS}{gap}{sign})(?:(?<={_FIVE}{gap}{sign})|(?<={_THREE}{gap}{sign}))"
        for gap in ("", r"[\"' ]", r"\\[\"']")
    ]
    return f"{sign}(?:{'|'.join(looks)})"


# Each begins with one rare character, which `re` finds as fast as memory is read.
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
_SHAPE: Final = bytes(
    ord("0") if 48 <= code <= 57 else 0 if code in b" -" else code for code in range(256)
)


def _long_number(text: str) -> bool:
    """Eight digits in a row, or four and four: every card and account number has them.

    Three times as fast as a pattern, because nothing in this is a search by character class.
    """
    shape = text.encode("utf-8", "surrogatepass").translate(_SHAPE)
    # Not by `in`, for which Python raises an error and clears it again.
    return shape.find(b"00000000") >= 0 or shape.find(b"0000\x000000") >= 0


def suspicious(text: str) -> bool:
    """Whether a text may hold something to hide; false is certain, for these rules."""
    # Spelled out: a loop over them would cost as much as they do.
    return bool(
        "@" in text
        or ("-" in text and _after_hyphen(text))
        or ("_" in text and _after_underscore(text))
        or "eyJ" in text
        or ("A" in text and _upper(text))
        or ("+" in text and _plus(text))
        or (")" in text and _area_code(text))
        or (":" in text and _named(text))
        or ("=" in text and _assigned(text))
        or "SG." in text
        or "ya29." in text
        or "earer " in text
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
    """Whether a dictionary's key says that its value is a secret."""
    plain = key.lower().replace("_", "").replace("-", "").replace(" ", "")
    return plain in _SENSITIVE or plain.endswith((*_SENSITIVE_ENDS, "secretaccesskey"))
