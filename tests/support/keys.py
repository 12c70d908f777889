"""Keys for tests: made in the data directory, or with the command as an operator would."""

import subprocess
import sys

from tracereel_collector.auth.administration import Administration, described
from tracereel_collector.auth.keys import parse_scopes


def make_key(data_dir, *, tenant="default", scope="write,read"):
    """A new key: `key` itself and what is kept of it."""
    secret, key = Administration.of(data_dir).create(
        tenant=tenant, scopes=parse_scopes(scope), by="test"
    )
    return {"key": secret, **described(key)}


def secret_of(key):
    """The part of a key that nobody may know."""
    return key.split("_", 2)[2]


def keys_command(data_dir, *arguments):
    """`tracereel keys …` on a data directory; what it printed."""
    return subprocess.run(
        [sys.executable, "-m", "tracereel", "keys", *arguments, "--data-dir", str(data_dir)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
