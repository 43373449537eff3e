"""The documents become pages whose links hold."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from minikafka.learn.wasm import SiteError
from scripts.lib import site


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
        assert "```" not in text, name  # a block that was not understood
    assert "DelayedOperation" in (manual / "search" / "search_index.json").read_text()


@pytest.mark.mission("LEARN-66")
@pytest.mark.parametrize("link", ["docs/none.md", "docs/how-to/testing.md#nowhere"])
def test_a_broken_link_fails(tmp_path: Path, link: str) -> None:
    root = checkout(tmp_path / "root")
    (root / "README.md").write_text(f"# Title\n\n[more]({link})\n")
    with pytest.raises(SiteError, match=re.escape(link.partition("#")[2] or link)):
        site.write_manual(root, tmp_path / "manual")
