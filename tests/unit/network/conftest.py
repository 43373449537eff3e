"""A network lab for each test."""

from collections.abc import AsyncIterator

import pytest

from tests.support.network.network_lab import Lab


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    lab = Lab()
    yield lab
    await lab.stop()
