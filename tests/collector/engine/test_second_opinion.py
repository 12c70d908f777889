"""Our lexer compared with the engine's parser on random SQL.

Only one direction matters: where the engine would run two statements, the guard must not see one.
"""

import json
import random
import subprocess
import sys

from tracereel_collector.engine.failures import QueryError
from tracereel_collector.engine.refusals import Rules
from tracereel_collector.engine.statements import parse

PIECES = [
    "SELECT 1",
    "SELECT 'a'",
    ";",
    ";",
    "'",
    '"',
    "`",
    "\\",
    "''",
    "--",
    "\n",
    "/*",
    "*/",
    "//",
    "#",
    "# ",
    "#!",
    "$",
    "$$",
    "$a$",
    "$a b$",
    "a$b$",
    "1$b$",
    "\u2018",
    "\u2019",
    "\u201c",
    "\u201d",
    "\u2013",
    "\u00a0",
    " ",
    "x",
    "1",
    ",",
    "AS x",
]
COUNT = """
import json, sys
import chdb
handle = chdb.connect(":memory:")
texts = json.load(sys.stdin)
json.dump([handle._conn.classify_query(text)["statement_count"] for text in texts], sys.stdout)
"""


def test_guard_and_engine_agree_on_single_statements() -> None:
    rnd = random.Random(20)
    texts = [
        "SELECT 1 "
        + "".join(rnd.choices(PIECES, k=rnd.randint(1, 9)))
        + rnd.choice(["", ";SELECT 2"])
        for _ in range(8000)
    ]
    done = subprocess.run(
        [sys.executable, "-c", COUNT],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    counts = json.loads(done.stdout)
    slipped = []
    for text, count in zip(texts, counts, strict=True):
        try:
            parse(text.encode(), Rules())
        except QueryError:
            continue
        if count > 1:
            slipped.append(text)
    assert slipped == []
    assert sum(count > 1 for count in counts) > 200, "the test must meet real second statements"
