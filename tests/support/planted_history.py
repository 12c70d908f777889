"""Repositories of 64 commits of the small program: harmless ones, and one that changes behaviour."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.support.desk import PROGRAM

COMMITS = 64
NUMBER = 5
"""Number of the recorded run: the clerk refunds a broken lamp."""
PLANTED = {
    "argument": ('find_order(number, ["total"])', 'find_order(number, ["total", "date"])'),
    "prompt": ('f"What about {text}?"', 'f"What about {text}? Be brief."'),
    "decision": ("    return answer\n", '    return answer + "!"\n'),
    "extra call": (
        "    answer = ask(f",
        '    find_order(number, ["date"])\n    answer = ask(f',
    ),
    "missing call": (
        '        return refund(number, found["total"])',
        "        return f\"{found['total']} for {number}\"",
    ),
    "effect": ('refund(number, found["total"])', 'refund(number, 2 * found["total"])'),
    "raised": ("    answer = ask(f", '    found["absent"]\n    answer = ask(f'),
    "output": ('{"number": number, "said"', '{"number": number + 1, "said"'),
}


@dataclass(frozen=True)
class PlantedHistory:
    """A repository and what was planted in it."""

    folder: Path
    kind: str
    commits: tuple[str, ...]
    first_bad: str
    before: str
    after: str


def planted_history(folder: Path, seed: int) -> PlantedHistory:
    """Make the repository of a seed."""
    draw = Random(seed)
    kind = list(PLANTED)[seed % len(PLANTED)]
    at = draw.randrange(1, COMMITS)
    files = {"desk.py": PROGRAM}
    stream: list[bytes] = []
    for number in range(COMMITS):
        if number == at:
            old, new = PLANTED[kind]
            before = files["desk.py"]
            assert before.count(old) == 1, (kind, old)
            files["desk.py"] = before.replace(old, new)
        elif number:
            _harmless(files, draw, number)
        stream.append(_commit(files, number))
    folder.mkdir(parents=True)
    _git(folder, "init", "-q", "-b", "main")
    _git(folder, "fast-import", "--quiet", stdin=b"".join(stream))
    _git(folder, "reset", "-q", "--hard", "main")
    commits = tuple(_git(folder, "rev-list", "--reverse", "main").split())
    assert len(commits) == COMMITS
    return PlantedHistory(folder, kind, commits, commits[at], *PLANTED[kind])


def _harmless(files: dict[str, str], draw: Random, number: int) -> None:
    """Make a change that no replay may report."""
    what = draw.randrange(5)
    source = files["desk.py"]
    if what == 0:
        files["desk.py"] = f"# note {number}\n{source}"
    elif what == 1:
        files["desk.py"] = f"{source}\n\ndef unused_{number}():\n    return {number}\n"
    elif what == 2:
        files[f"module_{number}.py"] = f"VALUE = {number}\n"
        files["desk.py"] = f"import module_{number}  # noqa: F401\n{source}"
    elif what == 3:
        # The variable `said` gets another name, and later its old one again.
        one, other = ("said", "spoken") if "    said = " in source else ("spoken", "said")
        source = source.replace(f"    {one} = seller", f"    {other} = seller")
        files["desk.py"] = source.replace(f'"said": {one}', f'"said": {other}')
    else:
        files["notes.md"] = f"commit {number}\n"


def _commit(files: dict[str, str], number: int) -> bytes:
    message = f"commit {number}\n".encode()
    who = f"test <test@localhost> {1_700_000_000 + number} +0000\n".encode()
    parts = [b"commit refs/heads/main\ncommitter ", who, b"data %d\n" % len(message), message]
    parts.append(b"deleteall\n")
    for name, text in files.items():
        data = text.encode()
        parts.append(b"M 100644 inline %b\ndata %d\n%b\n" % (name.encode(), len(data), data))
    return b"".join(parts)


def _git(folder: Path, *words: str, stdin: bytes = b"") -> str:
    done = subprocess.run(["git", *words], cwd=folder, input=stdin, check=True, capture_output=True)
    return done.stdout.decode()
