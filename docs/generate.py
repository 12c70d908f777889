"""Writes the generated parts of the documentation; the tests check that they are current."""

import json
from pathlib import Path

from tracereel.events import json_schema

HERE = Path(__file__).parent


def generated() -> dict[Path, str]:
    """Every generated file with the text it should have."""
    return {
        HERE / "events.schema.json": json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    }


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
