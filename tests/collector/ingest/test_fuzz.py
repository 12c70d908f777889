"""Fuzzing with thousands of almost valid bodies: accepted, repaired or refused, never a crash."""

import os
import random

from tests.support import fuzzing

CASES = int(os.environ.get("TRACEREEL_FUZZ_CASES", "10000"))
SEED = int(os.environ.get("TRACEREEL_FUZZ_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)


def test_any_body_is_accepted_repaired_or_refused():
    done = fuzzing.run(SEED, lambda number: number >= CASES)

    assert done.total() == CASES
    assert min(done["taken"], done["refused"], done["mended"]) > CASES / 1000, done
