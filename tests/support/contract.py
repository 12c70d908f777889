"""The eight example events of contract 1.0.0, as they are printed there."""

import json
from pathlib import Path

FILES = sorted((Path(__file__).parent.parent / "golden" / "contract").glob("*.json"))
PRINTED = [file.read_bytes() for file in FILES]
EXAMPLES = [json.loads(text) for text in PRINTED]


def example(event_type: str) -> dict:
    """The example of a type, as a dictionary of its own."""
    return dict(next(each for each in EXAMPLES if each["event_type"] == event_type))
