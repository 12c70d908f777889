"""Files of other projects that the page and its tests use, as `vendor.toml` lists them."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
LISTS = (
    ROOT / "collector/tracereel_collector/web/vendor/vendor.toml",
    ROOT / "tests/support/javascript/vendor.toml",
)
PACKAGES = [
    (listing.parent, name, package)
    for listing in LISTS
    for name, package in tomllib.loads(listing.read_text()).items()
]
PINNED = {
    folder / file["to"]: file["sha256"]
    for folder, _, package in PACKAGES
    for file in package["files"]
}
VENDORED = frozenset(PINNED)
AXE = LISTS[1].parent / "vendor" / "axe.min.js"
