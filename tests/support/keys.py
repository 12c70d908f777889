"""Keys for tests, created in the data directory or with the command."""

import subprocess
import sys

from tracereel_collector.auth.administration import Administration
from tracereel_collector.auth.keys import parse_scopes


def make_key(data_dir, *, tenant="default", scope="write,read"):
    """Create a key; return the secret `key` and its stored fields."""
    administration = Administration.of(data_dir)
    secret, key = administration.create(tenant=tenant, scopes=parse_scopes(scope), by="test")
    return {"key": secret, **administration.described(key)}


def secret_of(key):
    """Return the secret part of a key."""
    return key.split("_", 2)[2]


def keys_command(data_dir, *arguments):
    """Run `tracereel keys …` on a data directory."""
    return subprocess.run(
        [sys.executable, "-m", "tracereel", "keys", *arguments, "--data-dir", str(data_dir)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
