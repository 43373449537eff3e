"""The documents become pages whose links hold."""

from __future__ import annotations

import argparse
import html
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.cli.main import VERBS
from minikafka.page.learn.wasm import SiteError
from scripts.lib import site
from tests.support.pages import parser_of


def checkout(folder: Path) -> Path:
    """Copy the documents of this project to where a test may change them."""
    for name in site.DOCUMENTS:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (site.ROOT / name).is_dir():
            shutil.copytree(site.ROOT / name, target)
        else:
            shutil.copyfile(site.ROOT / name, target)
    return folder


def names_in_help(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the options of a verb that its help shows, and its actions with their options."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield below.prog
                yield from names_in_help(below)
        elif action.help != argparse.SUPPRESS and "--help" not in action.option_strings:
            yield from action.option_strings


@pytest.mark.mission("LEARN-66")
def test_documents_are_linked_and_searched_without_another_host(tmp_path: Path) -> None:
    manual = tmp_path / "manual"
    site.write_manual(site.ROOT, manual)
    pages = {
        path.relative_to(manual).as_posix(): path.read_text() for path in manual.rglob("*.html")
    }
    assert {"index.html", "ARCHITECTURE.html", "docs/mission.html"} <= set(pages)
    assert 'href="docs/mission.html"' in pages["index.html"]
    for name, text in pages.items():
        loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"([^\"]+)\"", text)
        assert [url for url in loaded if "//" in url] == [], name
        assert re.findall(r"<script(?![^>]*\bsrc=)|<style|<[^>]*\son\w+=", text) == [], name
        assert " style=" not in text, name  # the policy of the site would block it
        assert "```" not in text, name  # a block that was not understood
    assert "DelayedOperation" in (manual / "search" / "search_index.json").read_text()
    table = pages["docs/reference/verbs.html"]
    for verb in VERBS:
        assert f'href="verbs/{verb}.html"' in table
        page = html.unescape(pages[f"docs/reference/verbs/{verb}.html"])
        assert [name for name in names_in_help(parser_of(verb)) if name not in page] == []
    assert "Your first cluster</a>" in pages["docs/reference/verbs/stop.html"]


def test_the_search_reads_each_text_once() -> None:
    entries = [
        {"location": "a.html", "title": "A", "text": "A # Before. One # In one. Two # In two."},
        {"location": "a.html#one", "title": "One", "text": "In one."},
        {"location": "a.html#two", "title": "Two", "text": "In two."},
        {"location": "b.html", "title": "B", "text": "B # All."},
    ]
    found = site.sections(entries)
    assert [(each["page"], each["text"]) for each in found] == [
        ("A", "A # Before. "),
        ("A", "In one."),
        ("A", "In two."),
        ("B", "B # All."),
    ]


@pytest.mark.mission("LEARN-66")
@pytest.mark.parametrize("link", ["docs/none.md", "docs/how-to/testing.md#nowhere"])
def test_a_broken_link_fails(tmp_path: Path, link: str) -> None:
    root = checkout(tmp_path / "root")
    (root / "README.md").write_text(f"# Title\n\n[more]({link})\n")
    with pytest.raises(SiteError, match=re.escape(link.partition("#")[2] or link)):
        site.write_manual(root, tmp_path / "manual")
