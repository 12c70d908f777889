"""The eight example events of contract 1.0.0, as printed there."""

import json
from pathlib import Path

FILES = sorted((Path(__file__).parent.parent / "golden" / "contract").glob("*.json"))
PRINTED = [file.read_bytes() for file in FILES]
EXAMPLES = [json.loads(text) for text in PRINTED]


def example(event_type: str) -> dict:
    """Return a copy of a type's example."""
    return dict(next(each for each in EXAMPLES if each["event_type"] == event_type))
