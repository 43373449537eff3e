"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# No test asserts how long anything takes: a busy machine may take longer than the default of 200 ms.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
