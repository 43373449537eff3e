"""Writes learn mode as a static site: the page, and a Python that runs the cluster in its worker.

A browser that has opened the site once can open it without a network: a service worker keeps all
files. The site needs a server only as something that sends files.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Final, NamedTuple

from minikafka.page.learn.wasm import SiteError
from minikafka.page.learn.wasm.downloads import (
    LOCK,
    RUNTIME,
    STDLIB,
    fetch_pyodide,
    fetch_wheels,
    run,
)
from minikafka.page.learn.wasm.shipped import STDLIB_LEFT_OUT, add_linked_code, sources

__all__ = [
    "CONTENT_SECURITY_POLICY",
    "SiteError",
    "SiteSize",
    "keep_offline",
    "write_mode",
    "write_python",
    "write_site",
]

# Pyodide compiles WebAssembly, which a policy must allow. Frames can be forbidden in a header only.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; img-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; form-action 'none'"
)
PYTHON: Final = "python"  # the folder with what the worker loads
PACKAGES: Final = "packages.zip"
SERVICE_WORKER: Final = "service_worker.js"
_MARK: Final = '<meta charset="utf-8">'


class SiteSize(NamedTuple):
    """What a browser downloads: files and bytes, also as a server sends them with gzip."""

    files: int
    size_bytes: int
    gzip_bytes: int


def write_site(directory: Path) -> SiteSize:
    """Write the site into a directory, which is empty or has an earlier one. Raises SiteError.

    Pyodide is downloaded from npm and compiles Python's and this package's sources, so it takes
    about half a minute, and npm and node are needed.
    """
    _check(directory)
    directory.mkdir(parents=True, exist_ok=True)
    _write_page(directory)
    write_python(directory / PYTHON)
    return keep_offline(directory)


def _check(directory: Path) -> None:
    if shutil.which("node") is None:
        raise SiteError("Node, which compiles for the site, is not installed")
    if directory.exists() and not directory.is_dir():
        raise SiteError(f"{directory} is no directory")
    if directory.exists() and any(directory.iterdir()) and not (directory / PYTHON).is_dir():
        raise SiteError(f"{directory} has other files: name a new or an empty directory")


def _write_page(directory: Path) -> None:
    static = resources.files("minikafka.page.dashboard") / "static"
    with resources.as_file(static) as folder:
        shutil.copytree(folder, directory / "static", dirs_exist_ok=True)
    page = (directory / "static" / "learn.html").read_text()
    assert _MARK in page
    policy = f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">'
    (directory / "index.html").write_text(page.replace(_MARK, f"{_MARK}\n  {policy}", 1))
    write_mode(directory)


def write_mode(directory: Path, **facts: str) -> None:
    """Write what the page reads first. ``documents`` is where its link to documents leads."""
    (directory / "api").mkdir(exist_ok=True)
    mode = {"mode": "learn", "worker": True, **facts}
    (directory / "api" / "mode").write_text(json.dumps(mode))


def write_python(target: Path) -> None:
    """Write what the page's worker loads into a directory. Raises SiteError."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        pyodide = fetch_pyodide(work)
        for name in RUNTIME:
            shutil.copyfile(pyodide / name, target / name)
        lock = json.loads((pyodide / LOCK).read_text())
        (target / LOCK).write_text(json.dumps({"info": lock["info"], "packages": {}}))
        wheels = fetch_wheels(work)
        native = [wheel for wheel in wheels if not wheel.stem.endswith("-any")]
        for wheel in native:
            shutil.copyfile(wheel, target / f"{wheel.name.partition('-')[0]}.zip")
        pure = [wheel for wheel in wheels if wheel not in native]
        (work / PACKAGES).write_bytes(sources(pure))
        jobs = [
            _job(pyodide / STDLIB, target / STDLIB, 2, STDLIB_LEFT_OUT),
            _job(work / PACKAGES, target / PACKAGES, 0, ()),
        ]
        with resources.as_file(resources.files("minikafka.page.learn") / "wasm") as wasm:
            command = ["node", str(wasm / "compile.mjs"), str(pyodide), json.dumps(jobs)]
            run(command, work, "Pyodide does not compile the sources")
        add_linked_code(target / PACKAGES)


def _job(source: Path, target: Path, level: int, without: tuple[str, ...]) -> dict[str, object]:
    named = {"source": str(source.absolute()), "target": str(target.absolute())}
    return {**named, "level": level, "without": without}


def keep_offline(directory: Path) -> SiteSize:
    """Write the service worker, which keeps all files of the site, and return their size. Call it
    again after a change of a file."""
    files = {name: content for name, content in _files(directory) if name != SERVICE_WORKER}
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
    facts = {"version": digest.hexdigest()[:16], "files": list(files)}
    template = (resources.files("minikafka.page.learn") / "wasm" / SERVICE_WORKER).read_text()
    script = f"const SITE = {json.dumps(facts)};\n\n{template}"
    (directory / SERVICE_WORKER).write_text(script)
    contents = [*files.values(), script.encode()]
    packed = sum(len(gzip.compress(content, 9)) for content in contents)
    return SiteSize(len(contents), sum(map(len, contents)), packed)


def _files(directory: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            yield path.relative_to(directory).as_posix(), path.read_bytes()
