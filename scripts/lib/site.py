"""Writes the static site: learn mode, and beside it the project's documents."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from minikafka.page.learn.site import SiteError, SiteSize, keep_offline, write_mode, write_site
from scripts.lib.verb_pages import write_verb_pages

ROOT: Final = Path(__file__).resolve().parents[2]
MANUAL: Final = "manual"
DOCUMENTS: Final = (
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"),
    *("LICENSE", "config/flights/README.md", "docs"),
)


def stage(root: Path, folder: Path) -> None:
    """Copy the documents of a checkout, and what renders them, to where links between them hold."""
    shutil.copytree(ROOT / "scripts" / "lib" / "manual", folder, dirs_exist_ok=True)
    pages = folder / "pages"
    pages.mkdir()
    for name in DOCUMENTS:
        source = root / name
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, pages / name)
        else:
            shutil.copyfile(source, pages / name)
    write_verb_pages(pages)
    for page in pages.rglob("*.md"):
        page.write_text(_in_the_dialect(page.read_text()))


def _in_the_dialect(text: str) -> str:
    """Return Markdown of GitHub's dialect as Python-Markdown understands it: blocks of code have
    only a language, and lists in lists are indented by four spaces."""
    text = re.sub(r"^(```\w+) .*$", r"\1", text, flags=re.MULTILINE)
    return re.sub(r"^ {2,3}(?=[-*] )", "    ", text, flags=re.MULTILINE)


def write_manual(root: Path, directory: Path) -> None:
    """Render the documents of a checkout into a directory. Raises SiteError for a broken link."""
    with tempfile.TemporaryDirectory() as temporary:
        staged = Path(temporary)
        stage(root, staged)
        command = [
            *(sys.executable, "-m", "properdocs", "build", "--strict"),
            *("--config-file", str(staged / "properdocs.yml"), "--site-dir", str(directory)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SiteError(f"the documents cannot be rendered: {done.stderr.strip()}")
    index = directory / "search" / "search_index.json"
    found = sections(json.loads(index.read_text())["docs"])
    index.write_text(json.dumps(sorted(found, key=_rank)))


def sections(entries: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return what the manual's search reads, from the search plugin's entries: a page as a whole,
    then each of its sections. Of a page only the text before its first section is kept."""
    found: list[dict[str, str]] = []
    for entry in entries:
        is_page = "#" not in entry["location"]
        page = entry["title"] if is_page else found[-1]["page"]
        if not is_page and found[-1]["title"] == page:
            found[-1]["text"] = found[-1]["text"].partition(f"{entry['title']} # ")[0]
        found.append({**entry, "page": page})
    return found


def _rank(section: dict[str, str]) -> int:
    """Return the rank of a section among results that fit equally well."""
    folders = ("glossary", "tutorial", "how-to", "verbs", "reference", "explanation")
    ranks = [rank for rank, name in enumerate(folders) if f"/{name}" in section["location"]]
    return min(ranks, default=len(folders))


def write_all(directory: Path) -> SiteSize:
    """Write the whole site. Raises SiteError."""
    write_site(directory)
    write_manual(ROOT, (directory / MANUAL).absolute())
    write_mode(directory, documents=f"{MANUAL}/index.html")
    return keep_offline(directory)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/site", description=__doc__)
    parser.add_argument("directory", type=Path, help="where to write it")
    directory: Path = parser.parse_args().directory
    try:
        size = write_all(directory)
    except SiteError as error:
        sys.exit(f"scripts/site: {error}")
    kept, packed = size.size_bytes / 1e6, size.gzip_bytes / 1e6
    print(f"wrote {size.files} files to {directory}: {kept:.1f} MB, {packed:.1f} MB with gzip")


if __name__ == "__main__":
    main()
