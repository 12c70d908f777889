"""Files of other projects are those that were reviewed, with their licenses."""

import hashlib

import pytest

from tests.support.vendored import LISTS, PACKAGES, PINNED, ROOT


@pytest.mark.parametrize("path", PINNED, ids=[path.name for path in PINNED])
def test_a_vendored_file_has_the_pinned_digest(path):
    assert hashlib.sha256(path.read_bytes()).hexdigest() == PINNED[path]


@pytest.mark.parametrize("package", PACKAGES, ids=[name for _, name, _ in PACKAGES])
def test_a_vendored_package_has_a_version_a_home_and_its_license(package):
    folder, name, entry = package

    assert all(entry[each] for each in ("version", "license", "home"))
    (text,) = [folder / file["to"] for file in entry["files"] if file["from"] == "LICENSE"]
    assert len(text.read_text()) > 500, name


def test_every_file_beside_the_list_is_listed_or_ours():
    folder = LISTS[0].parent
    ours = {"vendor.toml", "diff.js"} | {path.name for path in folder.glob("*.d.ts")}
    found = {path for path in folder.rglob("*") if path.is_file() and path.name not in ours}

    assert {str(path.relative_to(ROOT)) for path in found - PINNED.keys()} == set()
