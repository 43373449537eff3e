"""The static site: its service worker keeps all of its files, and a directory in use is refused."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from minikafka.page.learn.site import SERVICE_WORKER, SiteError, keep_offline, write_site


@pytest.mark.mission("LEARN-64")
def test_the_service_worker_keeps_all_files_and_changes_with_each(tmp_path: Path) -> None:
    (tmp_path / "static").mkdir()
    (tmp_path / "index.html").write_text("<p>" * 1000)
    (tmp_path / "static" / "a.js").write_text("1")

    def kept() -> tuple[str, str]:
        first = (tmp_path / SERVICE_WORKER).read_text().splitlines()[0]
        found = re.fullmatch(r'const SITE = \{"version": "(\w+)", "files": (\[.*\])\};', first)
        assert found is not None
        return found[1], found[2]

    size = keep_offline(tmp_path)
    assert (size.files, size.gzip_bytes < size.size_bytes) == (3, True)
    version, files = kept()
    assert files == '["index.html", "static/a.js"]'
    assert keep_offline(tmp_path) == size
    assert kept()[0] == version
    (tmp_path / "static" / "a.js").write_text("2")
    keep_offline(tmp_path)
    assert kept() == (kept()[0], files)
    assert kept()[0] != version


@pytest.mark.mission("LEARN-63")
def test_other_files_and_a_missing_node_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    with pytest.raises(SiteError, match="has other files"):
        write_site(tmp_path)
    with pytest.raises(SiteError, match="is no directory"):
        write_site(tmp_path / "thesis.txt")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SiteError, match="Node"):
        write_site(tmp_path / "new")
    assert not (tmp_path / "new").exists()
