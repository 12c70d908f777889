"""Reproducible corpus of fake secrets and personal data, and a grep for them."""

import base64
import json
import random
import re
import string
from typing import Any

from tracereel._redact import secret_patterns

DRAW = random.Random(20260116)
ALNUM = string.ascii_letters + string.digits


def draw(alphabet: str, length: int) -> str:
    return "".join(DRAW.choice(alphabet) for _ in range(length))


def key(length: int = 32) -> str:
    return draw(ALNUM, length - 1) + "7"


def b64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def jwt() -> str:
    return f"{b64(json.dumps({'alg': 'HS256'}))}.{b64(json.dumps({'sub': key(12)}))}.{key(43)}"


def card() -> str:
    length, start = DRAW.choice([(16, "4"), (16, "52"), (15, "37"), (16, "6011"), (16, "2345")])
    body = start + draw(string.digits, length - len(start) - 1)
    digits = next(body + str(last) for last in range(10) if secret_patterns.luhn(body + str(last)))
    gap = DRAW.choice(["", " ", "-"]) if length == 16 else ""
    return gap.join(digits[at : at + 4] for at in range(0, length, 4))


def iban() -> str:
    country = DRAW.choice([("DE", 18), ("ES", 20), ("FR", 23)])
    body = draw(string.digits, country[1])
    number = int(body + "".join(str(int(each, 36)) for each in country[0]) + "00")
    compact = f"{country[0]}{98 - number % 97:02d}{body}"
    if DRAW.random() < 0.5:
        return compact
    return " ".join(compact[at : at + 4] for at in range(0, len(compact), 4))


def email() -> str:
    first, last = draw(string.ascii_lowercase, 9), draw(string.ascii_lowercase, 7)
    return f"{first}.{last}@example-{draw('abc', 3)}.co.uk"


def pem() -> str:
    body = "\n".join(key(64) for _ in range(3))
    kind = DRAW.choice(["RSA ", "EC ", "", "OPENSSH "])
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"


KINDS: dict[str, Any] = {
    "openai": lambda: f"sk-{key(48)}",
    "openai project": lambda: f"sk-proj-{key(60)}",
    "anthropic": lambda: f"sk-ant-api03-{key(80)}",
    "github": lambda: f"gh{DRAW.choice('pousr')}_{key(36)}",
    "github fine": lambda: f"github_pat_{key(60)}",
    "gitlab": lambda: f"glpat-{key(20)}",
    "slack": lambda: f"xox{DRAW.choice('bpa')}-{draw(string.digits, 12)}-{key(24)}",
    "google": lambda: f"AIza{key(35)}",
    "huggingface": lambda: f"hf_{key(34)}",
    "groq": lambda: f"gsk_{key(48)}",
    "stripe": lambda: f"sk_live_{key(24)}",
    "npm": lambda: f"npm_{key(36)}",
    "ours": lambda: f"trk_{draw('0123456789abcdef', 12)}_{key(43)}",
    "sendgrid": lambda: f"SG.{key(22)}.{key(43)}",
    "aws": lambda: f"AKIA{draw(string.ascii_uppercase + string.digits, 16)}",
    "jwt": jwt,
    "pem": pem,
    "bearer": lambda: f"Authorization: Bearer {key(40)}",
    "url": lambda: f"postgres://app:{key(16)}@db.internal:5432/prod",
    "password": lambda: f"password={key(14)}",
    "secret": lambda: f"aws_secret_access_key: '{key(40)}'",
    "token": lambda: f'"access_token": "{key(30)}"',
    "cookie": lambda: f"Cookie: session={key(32)}; theme=dark",
    "email": email,
    "card": card,
    "iban": iban,
    "phone": lambda: (
        f"+34 6{draw(string.digits, 2)} {draw(string.digits, 3)} {draw(string.digits, 3)}"
    ),
    "bare bearer": lambda: f"Bearer {key(40)}",
    "basic": lambda: f"Basic {b64(f'user:{key(20)}')}",
}
_HIDDEN = {
    "bearer": r"Bearer (\S+)",
    "bare bearer": r"Bearer (\S+)",
    "basic": r"Basic (\S+)",
    "url": r":(\w+)@",
    "password": r"=(\w+)",
    "secret": r"'(\w+)'",
    "token": r': "(\w+)"',
    "cookie": r"session=(\w+)",
    "pem": r"\n(\w+)\n",
}
CORPUS = [(kind, make()) for kind, make in KINDS.items() for _ in range(9)]


def secret_part(kind: str, sample: str) -> str:
    found = re.search(_HIDDEN[kind], sample) if kind in _HIDDEN else None
    return found.group(1) if found else sample


def leaks(text: str) -> list[str]:
    return [f"{k}: {s}" for k, s in CORPUS if secret_part(k, s) in text]
