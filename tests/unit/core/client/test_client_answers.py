"""The version of an API that a client speaks with a broker."""

from __future__ import annotations

import pytest

from minikafka.core.client.answers import choose_version


@pytest.mark.parametrize(
    ("ours", "theirs", "at_most", "version"),
    [
        ((0, 5), (3, 9), None, 5),
        ((0, 9), (3, 5), None, 5),
        ((0, 5), (3, 9), 4, 4),
        ((0, 5), (3, 9), 7, 5),
        ((0, 5), (3, 9), 2, None),
        ((5, 9), (0, 5), None, 5),
        ((6, 9), (0, 5), None, None),
        ((0, 5), (6, 9), None, None),
        ((0, 5), None, None, None),
    ],
)
def test_the_highest_version_that_both_speak(
    ours: tuple[int, int], theirs: tuple[int, int] | None, at_most: int | None, version: int | None
):
    assert choose_version(ours, theirs, at_most) == version
