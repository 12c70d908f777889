"""kill -9 of members at random moments while senders resend through other members."""

import os
import random
from collections import Counter

import pytest

from tests.support.collector_group import CollectorGroup, GroupOracles
from tests.support.conservation import conserved_group
from tests.support.waiting import wait_until

ROUNDS = int(os.environ.get("TRACEREEL_GROUP_ROUNDS", "3"))
SEED = int(os.environ.get("TRACEREEL_GROUP_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)


@pytest.mark.fault
@pytest.mark.timeout(max(600, 60 * ROUNDS))
def test_kill_9_of_members_loses_or_doubles_no_acknowledged_event(tmp_path):
    rnd = random.Random(SEED)
    group = CollectorGroup(tmp_path).start()
    try:
        oracles = GroupOracles(group, f"group{SEED}", SEED)
        for _ in range(ROUNDS):
            target = oracles.count + rnd.randint(1, 600)
            wait_until(lambda target=target: oracles.count >= target, timeout=120)
            killed = rnd.sample("abc", rnd.choice([1, 1, 2]))
            for name in killed:
                group[name].kill()
            group.restart(killed)
        assert oracles.finish() == 0, f"seed {SEED}"
        group.settle()
        acknowledged = oracles.acknowledged()
        stored = group.stored_events()
        assert acknowledged.total() > 0
        assert {"lost": acknowledged - stored, "doubled or unknown": stored - acknowledged} == {
            "lost": Counter(),
            "doubled or unknown": Counter(),
        }, f"seed {SEED}"
        counted = conserved_group(group)
        assert counted["stored"] == acknowledged.total()
        assert counted["relayed"] > 0
        assert counted["rejected"] == counted["quarantined"] == 0
    finally:
        group.close()


@pytest.mark.fault
@pytest.mark.parametrize(
    ("point", "where"),
    [
        ("after_relay", "a"),
        ("after_commit", "b"),
    ],
)
def test_a_crash_in_the_middle_of_a_relay_neither_loses_nor_doubles(tmp_path, point, where):
    group = CollectorGroup(tmp_path, "ab").start()
    try:
        dying = group[where]
        dying.stop()
        dying.environ["TRACEREEL_CRASH_AT"] = f"{point}:3"
        dying.start()
        oracles = GroupOracles(group, "crash", SEED)
        wait_until(lambda: dying.process.poll() is not None, timeout=60)
        del dying.environ["TRACEREEL_CRASH_AT"]
        dying.start()
        target = oracles.count + 200
        wait_until(lambda: oracles.count >= target, timeout=60)
        assert oracles.finish() == 0
        group.settle()
        assert group.stored_events() == oracles.acknowledged()
        conserved_group(group)
    finally:
        group.close()
