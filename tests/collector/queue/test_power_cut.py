"""Power cuts at any moment: any subset of unsynced sectors is on disk, in any order."""

import collections
import os

import pytest

from tests.support import disk as disks
from tests.support import power

pytestmark = pytest.mark.skipif(not disks.available, reason="SQLite's functions are not reachable")
CUTS = int(os.environ.get("TRACEREEL_POWER_CUTS", "80"))
SEED = int(os.environ.get("TRACEREEL_POWER_SEED", "0")) or disks.seeded(None).randrange(1, 10**6)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return power.record(tmp_path_factory.mktemp("recorded"))


def test_recorded_log_contains_checkpoints_and_clean_stops(log):
    """The simulation needs checkpoints: pages written to the main file between syncs, many times."""
    seen = collections.Counter(
        (entry[0], entry[1].rpartition(".")[2]) for entry in log if entry[0] != "mark"
    )

    assert seen["write", "sqlite"] > 40
    assert seen["sync", "sqlite"] > 5
    assert seen["sync", "sqlite-wal"] > 40
    assert seen["delete", "sqlite-wal"] == 2


def test_wal_is_synced_before_acknowledgement(log):
    """No WAL data is unsynced when an acknowledgement is sent."""
    unsynced = set()
    for what, *rest in log:
        if what == "mark":
            assert "queue.sqlite-wal" not in unsynced
        elif what == "sync":
            unsynced.discard(rest[0])
        else:
            unsynced.add(rest[0])


def test_acknowledged_bodies_survive_any_power_cut_exactly_once(log, tmp_path):
    rnd = disks.seeded(SEED)
    first = next(at for at, entry in enumerate(log) if entry[0] == "mark")
    for _ in range(CUTS):
        cut = rnd.randint(0 if rnd.random() < 0.1 else first, len(log))
        try:
            power.check(log, cut, rnd, tmp_path / "cut")
        except Exception as error:
            raise AssertionError(f"seed {SEED}, cut at {cut} of {len(log)}") from error


def test_power_cut_in_the_middle_of_every_checkpoint(log, tmp_path):
    rnd = disks.seeded(SEED)
    cuts = [at for at, entry in enumerate(log) if entry[:2] == ("write", "queue.sqlite")]
    for cut in cuts[:: max(1, len(cuts) // 40)]:
        try:
            power.check(log, cut + 1, rnd, tmp_path / "cut")
        except Exception as error:
            raise AssertionError(f"seed {SEED}, cut at {cut + 1} of {len(log)}") from error
