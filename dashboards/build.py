"""Writes the dashboards as JSON; `--check` only lists outdated files."""

import argparse
import json
import sys
from pathlib import Path

from dashboards.boards import agents, collector, goals, models, pipelines, runs
from dashboards.panels import Board

FOLDER = Path(__file__).parent / "json"
BOARDS: tuple[Board, ...] = (
    goals.BOARD,
    agents.BOARD,
    pipelines.BOARD,
    models.BOARD,
    runs.BOARD,
    collector.BOARD,
)


def written() -> dict[Path, str]:
    """Return the expected content of each file."""
    return {
        FOLDER / f"{board.uid}.json": json.dumps(board.json(), indent=1, ensure_ascii=False) + "\n"
        for board in BOARDS
    }


def stale() -> list[Path]:
    """Return files that are missing, outdated or without a dashboard."""
    wanted = written()
    there = set(FOLDER.glob("*.json"))
    changed = [
        file for file in wanted if file not in there or file.read_text("utf-8") != wanted[file]
    ]
    return sorted([*changed, *(there - wanted.keys())])


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; 1 if a file is not current"
    )
    if parser.parse_args().check:
        found = stale()
        for file in found:
            print(f"{file.name} is not current: run `make dashboards`", file=sys.stderr)
        return 1 if found else 0
    FOLDER.mkdir(exist_ok=True)
    for file in FOLDER.glob("*.json"):
        file.unlink()
    for file, text in written().items():
        file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
