"""The pictures of README and docs: each can be drawn, and the page logs no error meanwhile."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from scripts.lib.screenshots import FOLDER, PICTURES, SCHEMES, pictures, shown

PNG = b"\x89PNG\r\n"


@pytest.mark.mission("GLASS-80")
def test_each_picture_is_drawn_from_the_seed(chromium: Browser) -> None:
    with shown() as address:
        drawn = dict(pictures(chromium, address, "dark"))
    assert list(drawn) == list(PICTURES)
    for picture, data in drawn.items():
        assert data.startswith(PNG), picture.name
    assert len(set(drawn.values())) == len(PICTURES)


@pytest.mark.mission("GLASS-80")
def test_the_pictures_of_the_docs_are_there() -> None:
    names = {f"{picture.name}-{scheme}.png" for picture in PICTURES for scheme in SCHEMES}
    assert {path.name for path in FOLDER.iterdir()} == names | {"failover.webp"}
