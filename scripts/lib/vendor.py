"""Takes the JavaScript libraries of the page from npm, and writes where they come from."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
VENDOR: Final = ROOT / "minikafka" / "page" / "dashboard" / "static" / "vendor"


@dataclass(frozen=True)
class VendoredFile:
    """A file that is copied from a package. Bare imports get relative paths, because a page whose
    Content-Security-Policy forbids inline scripts cannot have an import map."""

    path: str  # within the package
    name: str  # below vendor/
    replace: Mapping[str, str] = field(default_factory=dict)
    append: str = ""


@dataclass(frozen=True)
class Library:
    package: str
    version: str
    licence: str
    integrity: str  # npm's, of the package's archive
    files: tuple[VendoredFile, ...]


LIBRARIES: Final = (
    Library(
        "preact",
        "11.2.0",
        "MIT",
        "sha512-/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg==",
        (
            VendoredFile("dist/preact.mjs", "preact.js"),
            VendoredFile("hooks/dist/hooks.mjs", "hooks.js", {'from"preact"': 'from"./preact.js"'}),
        ),
    ),
    Library(
        "htm",
        "3.1.1",
        "Apache-2.0",
        "sha512-983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        (VendoredFile("dist/htm.mjs", "htm.js"),),
    ),
    Library(
        "@preact/signals-core",
        "1.14.5",
        "MIT",
        "sha512-vcRv7Ityz5JVmeiVqIluLFzT/PDS/AlhHUpw3/aUWqcVUs6bDGIPXE/6RSC4evBNWYvnniozg5Syfj33al3gkg==",
        (VendoredFile("dist/signals-core.mjs", "signals.js"),),
    ),
    Library(
        "uplot",
        "1.6.32",
        "MIT",
        "sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
        (
            VendoredFile("dist/uPlot.iife.min.js", "uplot.js", append="\nexport default uPlot;\n"),
            VendoredFile("dist/uPlot.min.css", "uplot.css"),
        ),
    ),
)
SOURCE_MAP: Final = re.compile(r"\n?//# sourceMappingURL=\S+\s*$")


def integrity(archive: bytes) -> str:
    """Return npm's way to write the hash of a package."""
    return "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()


def vendored_text(file: VendoredFile, original: str) -> str:
    """Return the text that the page loads. Raises ValueError if an import is not where it was."""
    text = SOURCE_MAP.sub("", original)
    for old, new in file.replace.items():
        if old not in text:
            raise ValueError(f"{file.path} has no {old}")
        text = text.replace(old, new)
    return text.rstrip("\n") + "\n" + file.append.lstrip("\n")


def licence_name(library: Library) -> str:
    return f"LICENSE.{library.package.rpartition('/')[2]}.txt"


def fetch(library: Library, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield names and texts of a library's files. Raises ValueError if the archive is another."""
    packed = subprocess.run(
        ["npm", "pack", "--silent", f"{library.package}@{library.version}"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    archive = folder / packed.stdout.strip().splitlines()[-1]
    found = integrity(archive.read_bytes())
    if found != library.integrity:
        raise ValueError(f"{library.package} has integrity {found}, not {library.integrity}")
    with tarfile.open(archive) as files:

        def read(path: str) -> str:
            member = files.extractfile(f"package/{path}")
            if member is None:
                raise ValueError(f"{library.package} has no file {path}")
            return member.read().decode()

        for file in library.files:
            yield file.name, vendored_text(file, read(file.path))
        yield licence_name(library), read("LICENSE")


def description(folder: Path) -> str:
    """Return VENDOR.md for the files in ``folder``."""
    lines = [
        "# Libraries of the page",
        "",
        "`scripts/vendor` wrote these files from npm packages; do not edit them. They differ from",
        "the packages in two things: imports are relative, and references to source maps are gone.",
        "",
        "| package | version | licence | integrity of npm's archive |",
        "|---|---|---|---|",
    ]
    for library in LIBRARIES:
        licence = f"{library.licence} ([text]({licence_name(library)}))"
        lines.append(
            f"| {library.package} | {library.version} | {licence} | `{library.integrity}` |"
        )
    lines += ["", "| file | from | bytes | SHA-256 |", "|---|---|---|---|"]
    for library in LIBRARIES:
        for file in library.files:
            content = (folder / file.name).read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            lines.append(
                f"| {file.name} | {library.package}/{file.path} | {len(content):,} | `{digest}` |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    VENDOR.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for library in LIBRARIES:
            for name, text in fetch(library, Path(folder)):
                (VENDOR / name).write_text(text)
    (VENDOR / "VENDOR.md").write_text(description(VENDOR))
    print(f"wrote {sum(len(library.files) for library in LIBRARIES)} files to {VENDOR}")


if __name__ == "__main__":
    main()
