"""Writes the static site: learn mode, and beside it the project's documents."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from minikafka.page.learn.site import SiteError, SiteSize, keep_offline, write_mode, write_site

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
