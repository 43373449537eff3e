"""Chooses what of this package, and of the standard library, a browser tab loads."""

from __future__ import annotations

import io
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parents[3]
_WASM: Final = "minikafka/page/learn/wasm/"

# What the simulated cluster and its lessons never import.
_LEFT_OUT: Final = tuple(
    f"minikafka/{room}"
    for room in (
        *("__main__.py", "cli/", "page/dashboard/acting/", "page/dashboard/tooling/"),
        *("page/learn/serving/", "page/learn/site.py", "registry/", "spark/", "world/real/"),
    )
)
_TESTING: Final = "minikafka/testing/"
_OF_TESTING: Final = (f"{_TESTING}__init__.py", f"{_TESTING}simulator/")
_OF_WASM: Final = (f"{_WASM}__init__.py", f"{_WASM}bridge.py")

# Of the standard library: servers, tools for developers, and formats that nothing here reads.
STDLIB_LEFT_OUT: Final = (
    *("_pyio", "_pyrepl", "bdb", "configparser", "doctest", "ensurepip", "ftplib", "html"),
    *("imaplib", "mailbox", "multiprocessing", "optparse", "pdb", "pickletools", "plistlib"),
    *("poplib", "pydoc", "smtplib", "sqlite3", "statistics", "turtle", "unittest", "venv"),
    *("wsgiref", "xml", "xmlrpc"),
)


def is_shipped(name: str) -> bool:
    """Return whether the tab loads a file, whose path begins with ``minikafka/``."""
    if name.startswith(_WASM):
        return name in _OF_WASM
    if name.startswith(_TESTING) and not name.startswith(_OF_TESTING):
        return False
    suffix = name.rpartition(".")[2]
    return suffix in ("py", "toml") and not name.startswith(_LEFT_OUT)


def sources(wheels: Sequence[Path]) -> bytes:
    """Return a zip archive with what the tab imports: this package with its version for
    ``importlib.metadata``, the fallbacks, and the modules of pure wheels."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in sorted(_files()):
            archive.writestr(zipfile.ZipInfo(name), content)
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as files:
                for name in files.namelist():
                    if name.endswith(".py"):
                        archive.writestr(zipfile.ZipInfo(name), files.read(name))
    return packed.getvalue()


def _files() -> Iterator[tuple[str, str]]:
    for path in PACKAGE.rglob("*"):
        name = path.relative_to(PACKAGE.parent).as_posix()
        if path.is_file() and is_shipped(name):
            yield name, path.read_text()
    fallbacks = PACKAGE / "page" / "learn" / "wasm" / "fallback"
    for path in fallbacks.glob("[!_]*.py"):
        yield path.name, path.read_text()
    version = metadata.version("minikafka")
    facts = f"Metadata-Version: 2.1\nName: minikafka\nVersion: {version}\n"
    yield f"minikafka-{version}.dist-info/METADATA", facts


def add_linked_code(archive: Path) -> None:
    """Add the sources that texts of chapters link to, for a reader who opens a link. Python imports
    the bytecode beside them."""
    texts = PACKAGE / "page" / "learn" / "chapters" / "texts"
    tables = (tomllib.loads(path.read_text()) for path in sorted(texts.glob("*.toml")))
    links = {
        link.partition(":")[0]
        for table in tables
        for entry in table.values()
        for link in entry.get("code", ())
    }
    with zipfile.ZipFile(archive, "a", zipfile.ZIP_DEFLATED, compresslevel=9) as target:
        for name in sorted(links):
            target.writestr(name, (PACKAGE.parent / name).read_text())
