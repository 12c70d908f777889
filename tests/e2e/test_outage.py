"""Short form of `make chaos`: faults of every kind under load, every event stored once."""

import json
import os
import random

import pytest

from tests import chaos

SEED = int(os.environ.get("TRACEREEL_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
FAULTS = 8


@pytest.mark.fault
@pytest.mark.timeout(600)
def test_short_chaos_loses_and_duplicates_nothing(tmp_path):
    table = chaos.run(
        tmp_path, seed=SEED, until=lambda world: world.done.total() >= FAULTS, pause=(0.1, 0.6)
    )

    assert chaos.holds(table), json.dumps(table)  # whole: pytest cuts the repr
