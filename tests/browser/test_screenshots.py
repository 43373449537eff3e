"""The pictures of README and docs: each can be drawn, and the page logs no error meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from minikafka.page.learn.chapters.table import TABLE
from minikafka.page.learn.texts import Catalogue
from scripts.lib import learn_pictures
from scripts.lib.screenshots import FOLDER, PICTURES, READ, SCHEMES, pictures, shown

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
    drawn = (*PICTURES, *READ)
    names = {f"{picture.name}-{scheme}.png" for picture in drawn for scheme in SCHEMES}
    assert {path.name for path in FOLDER.iterdir()} == names | {"failover.webp"}


@pytest.mark.mission("LEARN-39")
def test_a_chapter_is_drawn_at_its_sentence(chromium: Browser) -> None:
    name = "playground"
    with ThreadPoolExecutor(1) as thread:  # here Playwright's loop runs
        at = thread.submit(learn_pictures.moment, name, learn_pictures.DRAWN[name]).result()
    with learn_pictures.served() as address:
        ((_, drawn),) = learn_pictures.pictures(chromium, address, {name: at})
    assert drawn.startswith(b"RIFF")


@pytest.mark.mission("LEARN-39")
def test_pictures_are_not_drawn_without_a_font_for_chinese(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "fc-list"
    program.write_text('#!/bin/sh\n[ -z "$FONT" ] || echo $FONT\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="apt-get install fonts-"):
        learn_pictures.require_chinese_font()
    monkeypatch.setenv("FONT", "WenQuanYi")
    learn_pictures.require_chinese_font()
    program.unlink()
    with pytest.raises(SystemExit, match="apt-get install fontconfig"):
        learn_pictures.require_chinese_font()


@pytest.mark.mission("LEARN-39")
def test_the_docs_have_a_small_picture_of_each_chapter() -> None:
    for name, key in learn_pictures.DRAWN.items():
        assert key in Catalogue.of(name).entries, name
    files = {path.stem: path.stat().st_size for path in learn_pictures.FOLDER.iterdir()}
    assert set(files) == {*TABLE.values(), "record"}
    assert max(files[name] for name in TABLE.values()) <= learn_pictures.MAX_BYTES
