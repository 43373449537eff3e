"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# No test asserts a duration: a busy machine may need longer than the default of 200 ms.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
