"""Fleet files: private, bounded, and refused when they are cut or damaged."""

import gzip
import json
from pathlib import Path

import pytest

from tracereel.fleet import file as fleet_file
from tracereel.fleet.file import FleetFile, FleetFileError


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "runs.fleet"
    with fleet_file.writing(path, {"share": 1.0}) as writer:
        for number in range(3):
            writer.add(f"run-{number}", [{"tape_id": "t", "part": 0, "records": []}])
    return path


def lines_of(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


def test_a_file_is_private_and_gives_its_runs_back(written: Path) -> None:
    file = FleetFile(written)

    assert written.stat().st_mode & 0o777 == 0o600
    assert file.total == 3
    assert [each.trace_id for each in file.runs()] == ["run-0", "run-1", "run-2"]
    assert not list(written.parent.glob("*.part"))


def test_a_file_whose_writer_failed_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "runs.fleet"
    with pytest.raises(RuntimeError), fleet_file.writing(path, {}):
        raise RuntimeError

    assert list(tmp_path.iterdir()) == []


def test_a_part_that_others_can_read_is_not_written_to(tmp_path: Path) -> None:
    waiting = tmp_path / "runs.fleet.part"
    waiting.write_text("")
    waiting.chmod(0o666)
    with fleet_file.writing(tmp_path / "runs.fleet", {}):
        assert waiting.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda lines: lines[:-1], "is cut behind run 3"),
        (lambda lines: [*lines[:2], *lines[3:]], "has 2 runs, and says 3"),
        (lambda lines: lines[1:], "is no fleet file"),
        (lambda lines: [b'{"tracereel_fleet": 7}\n', *lines[1:]], "has version 7; expected 1"),
        (lambda lines: [lines[0], b"[[[[\n", *lines[1:]], "is damaged behind run 0"),
        (lambda _: [], "is no fleet file"),
    ],
)
def test_a_damaged_file_is_refused(written: Path, damage: object, message: str) -> None:
    assert callable(damage)
    written.write_bytes(gzip.compress(b"".join(damage(lines_of(written)))))

    with pytest.raises(FleetFileError, match=message):
        FleetFile(written)


def test_a_file_that_is_cut_in_the_middle_is_refused(written: Path) -> None:
    written.write_bytes(written.read_bytes()[:-20])

    with pytest.raises(FleetFileError, match="cannot be read"):
        FleetFile(written)


def test_a_line_that_expands_without_end_is_refused(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_file, "MAX_LINE", 10_000)
    line = json.dumps({"trace_id": "x", "parts": ["a" * 20_000]}).encode()
    written.write_bytes(gzip.compress(lines_of(written)[0] + line))

    with pytest.raises(FleetFileError, match="is too large"):
        FleetFile(written)
