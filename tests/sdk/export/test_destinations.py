"""Destination records beside spools: only records of this user are trusted."""

import os
from pathlib import Path

import pytest

from tracereel import config
from tracereel._export import destinations


def recorded(tmp_path: Path) -> config.Config:
    settings = config.load({}, endpoint="http://a", api_key="k", spool_dir=str(tmp_path))
    destinations.remember(settings, "acme")
    return settings


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    settings = recorded(tmp_path)

    found = destinations.read(settings.destination_dir)

    assert found is not None
    assert (found.endpoint, found.tenant) == ("http://a", "acme")


def test_destination_record_of_another_user_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = recorded(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)

    assert destinations.read(settings.destination_dir) is None


def test_a_link_is_not_read_as_a_record(tmp_path: Path) -> None:
    settings = recorded(tmp_path)
    path = destinations.record_path(settings.destination_dir)
    path.symlink_to(path.rename(tmp_path / "elsewhere"))

    assert destinations.read(settings.destination_dir) is None


def test_a_file_that_another_user_has_put_in_the_way_is_not_written_to(tmp_path: Path) -> None:
    settings = config.load({}, endpoint="http://a", api_key="k", spool_dir=str(tmp_path))
    path = destinations.record_path(settings.destination_dir)
    theirs = tmp_path / "theirs"
    theirs.write_text("kept")
    path.with_suffix(f".{os.getpid()}.tmp").symlink_to(theirs)

    destinations.remember(settings, "acme")

    assert theirs.read_text() == "kept"
