"""The snippets of the pages on context, metrics and logs run as printed."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.conftest import SDK
from tracereel.logs import configure_logs

DOCS = SDK.parent / "docs" / "sdk"


def snippets(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(
    ("page", "number"),
    [
        (page, number)
        for page in ("context.md", "metrics-and-logs.md")
        for number in range(len(snippets(page)))
    ],
)
def test_the_snippet_runs(page: str, number: int, tmp_path: Path, recorded: Any) -> None:
    if "import httpx" in (code := snippets(page)[number]):
        pytest.importorskip("httpx")
    names: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(code, f"{page}:{number}", "exec"), names)
    configure_logs()
    assert names.get("result", "HELLO") == "HELLO"
    assert names.get("doubled", [2, 4, 6]) == [2, 4, 6]
    assert names.get("traceparent", "00-").startswith("00-")
    assert names.get("left", 149984) == 149984
    if (client := names.get("client")) is not None:
        client.close()
    if "server" in names:
        names["server"].close()
