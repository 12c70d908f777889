"""Fetches the JavaScript files of other projects that the page and its tests use, and pins them.

`python .ci/vendor.py` fetches each package with `npm pack` and copies the files that
`vendor.toml` names, byte for byte. A file whose digest differs from the pinned one is refused;
`--pin` writes the digests of a new version.
"""

import argparse
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTS = (
    ROOT / "collector/tracereel_collector/web/vendor/vendor.toml",
    ROOT / "tests/support/javascript/vendor.toml",
)


def _archive(package: str, version: str) -> tarfile.TarFile:
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", f"{package}@{version}"]
        packed = subprocess.run(  # noqa: S603 - names and versions from our own listing
            command, cwd=folder, check=True, capture_output=True, text=True
        )
        body = (Path(folder) / packed.stdout.strip()).read_bytes()
    return tarfile.open(fileobj=io.BytesIO(body), mode="r:gz")


def main() -> int:
    """Copy every listed file; return 1 if one has another digest than the pinned one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pin", action="store_true", help="write the digests of what was fetched")
    pin = parser.parse_args().pin
    wrong = 0
    for listing in LISTS:
        text = listing.read_text()
        for name, package in tomllib.loads(text).items():
            archive = _archive(name, package["version"])
            for file in package["files"]:
                member = archive.extractfile(f"package/{file['from']}")
                body = member.read() if member else b""
                digest = hashlib.sha256(body).hexdigest()
                if digest != file["sha256"] and not pin:
                    print(f"{name} {package['version']}: {file['from']} has digest {digest}")
                    wrong = 1
                    continue
                line = rf'(to = "{re.escape(file["to"])}", sha256 = )"[0-9a-f]*"'
                text = re.sub(line, rf'\g<1>"{digest}"', text)
                target = listing.parent / file["to"]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(body)
        if pin:
            listing.write_text(text)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
