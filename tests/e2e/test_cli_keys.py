"""`tracereel doctor` and `ship` with keys that a real collector refuses."""

import json
import os
import subprocess
import sys

import pytest

from tests.sdk.cli.test_cli_ship import leave_events
from tests.support.collector import CollectorProcess
from tests.support.keys import make_key
from tracereel.config import load


class KeyedSite:
    """Collector with a key for each scope, and a spool of events for one of them."""

    def __init__(self, folder):
        data = folder / "data"
        self.keys = {scope: make_key(data, scope=scope)["key"] for scope in ("read", "write")}
        self.keys["unknown"] = "trl_" + "0" * 40
        self.collector = CollectorProcess(data).start()
        self.spool = folder / "spool"

    def leave(self, scope, events):
        """Leave events of an ended process under a key."""
        settings = {"endpoint": self.collector.url, "spool_dir": str(self.spool)}
        leave_events(load({}, api_key=self.keys[scope], **settings).destination_dir, events)

    def run(self, scope, *words):
        env = {key: value for key, value in os.environ.items() if not key.startswith("TRACEREEL_")}
        return subprocess.run(
            [
                *(sys.executable, "-m", "tracereel", *words),
                *("--endpoint", self.collector.url, "--api-key", self.keys[scope]),
            ],
            env={**env, "TRACEREEL_SPOOL_DIR": str(self.spool)},
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )

    def diagnose(self, scope):
        done = self.run(scope, "doctor", "--json")
        checks = json.loads(done.stdout)["checks"]
        (key,) = [check for check in checks if check["name"] == "api key"]
        return done.returncode, key


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = KeyedSite(tmp_path_factory.mktemp("keys"))
    yield made
    made.collector.stop()


def test_doctor_says_that_a_read_only_key_cannot_send(site):
    status, key = site.diagnose("read")
    assert (status, key["status"]) == (0, "warn")
    assert "may not send events" in key["detail"]
    assert "write is needed" in key["detail"]
    site.leave("read", 3)
    status, key = site.diagnose("read")
    assert (status, key["status"]) == (1, "fail")
    assert "events stay in the spool" in key["advice"]


def test_doctor_accepts_a_key_that_may_send(site):
    status, key = site.diagnose("write")
    assert (status, key["status"]) == (0, "warn")
    assert "may not read" in key["detail"]
    status, key = site.diagnose("unknown")
    assert (status, key["status"]) == (1, "fail")
    assert "refused" in key["detail"]


@pytest.mark.parametrize(("scope", "message"), [("read", "HTTP 403"), ("unknown", "HTTP 401")])
def test_ship_reports_a_refused_key(site, scope, message):
    site.leave(scope, 2)
    done = site.run(scope, "ship", "--timeout", "100")
    assert done.returncode == 1
    assert f"refused the key: {message}" in done.stderr
    assert "--api-key" in done.stderr
    assert "tracereel serve" not in done.stderr
