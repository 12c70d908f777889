"""Keys for tests, created in the data directory or with the command."""

import subprocess
import sys

from tracereel_collector.auth.keys import parse_scopes
from tracereel_collector.auth.keystore import KeyStore


def make_key(data_dir, *, tenant="default", scope="write,read"):
    """Create a key; return the secret `key` and its stored fields."""
    store = KeyStore.of(data_dir)
    secret, key = store.create(tenant=tenant, scopes=parse_scopes(scope), by="test")
    return {"key": secret, **store.document(key)}


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
