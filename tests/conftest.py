"""What holds for every test: none is failed by a slow machine, and long ones begin early."""

import os

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Tests start hundreds of processes that import the same modules: they need be compiled only once.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
