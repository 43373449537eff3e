"""The compiled copy of the checkout: makes it, and brings it up to date.

Nothing is compiled in the checkout itself: an extension there would be imported instead of its
source and hide later edits. The copy has all files of the checkout. Its folder ``build`` keeps
mypy's cache, the C files and the objects, so that only what has changed is compiled again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).parents[2]
DEFAULT_FOLDER: Final = CHECKOUT / ".compiled"
_INPUTS: Final = ("setup.py", "constraints.txt")  # the versions of mypy and setuptools


class NotCompiled(Exception):
    """The compiler failed; its messages are on stderr."""


def bring_up_to_date(folder: Path) -> bool:
    """Make ``folder`` a compiled copy of the checkout. Return whether it had to be compiled.

    Raises NotCompiled."""
    copy_files(CHECKOUT, folder)
    _link(".kafka", folder)
    modules = listed_modules(folder)
    stamp, wanted = folder / "build" / "stamp", fingerprint(folder)
    if stamp.exists() and stamp.read_text() == wanted:
        return False
    for path in _extensions(folder):
        path.unlink()
    environment = {**os.environ, "MINIKAFKA_OBJECTS": f"build/mypyc/objects-{_flags()}"}
    environment.pop("MINIKAFKA_PURE", None)
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    made = {path.relative_to(folder).as_posix().partition(".")[0] for path in _extensions(folder)}
    if missing := [path for path in modules if path.removesuffix(".py") not in made]:
        print(done.stdout, file=sys.stderr)
        raise NotCompiled(", ".join(missing))
    stamp.write_text(wanted)
    return True


def listed_modules(folder: Path) -> list[str]:
    """The paths of the modules that are compiled, see setup.py."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    modules: list[str] = project["tool"]["minikafka"]["compiled"]
    return modules


def fingerprint(folder: Path) -> str:
    """A hash of everything that the extensions depend on. Types of other modules are part of it."""
    total = hashlib.sha256(f"{sys.version}{_flags()}".encode())
    for path in sorted((folder / "minikafka").rglob("*.py")):
        total.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    total.update("\0".join(listed_modules(folder)).encode())
    for name in _INPUTS:
        total.update((folder / name).read_bytes())
    return total.hexdigest()


def _flags() -> str:
    """A hash of the compiler's flags: objects made with others do not count as up to date."""
    return hashlib.sha256(os.environ.get("CFLAGS", "").encode()).hexdigest()[:8]


def copy_files(checkout: Path, folder: Path) -> None:
    """Copy the files of the checkout that differ, and remove those that it no longer has."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=checkout,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    names = {name for name in listed.stdout.split("\0") if (checkout / name).is_file()}
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / ".copied"
    before = set(record.read_text().split("\0")) if record.exists() else set()
    for name in before - names:
        (folder / name).unlink(missing_ok=True)
    for name in names:
        source, target = checkout / name, folder / name
        facts = source.stat()
        if target.exists():
            copied = target.stat()
            if (copied.st_mtime_ns, copied.st_size) == (facts.st_mtime_ns, facts.st_size):
                continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
    record.write_text("\0".join(sorted(names)))


def _link(name: str, folder: Path) -> None:
    """Let the copy share a folder of downloads with the checkout."""
    if (CHECKOUT / name).is_dir() and not (folder / name).exists():
        (folder / name).symlink_to(CHECKOUT / name)


def _extensions(folder: Path) -> list[Path]:
    return [*folder.glob("*__mypyc.*.so"), *(folder / "minikafka").rglob("*.so")]


def main() -> int:
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else DEFAULT_FOLDER
    try:
        compiled = bring_up_to_date(folder)
    except NotCompiled as error:
        print(f"scripts/compile: these modules are not compiled: {error}", file=sys.stderr)
        return 1
    print(f"{folder}: {'compiled' if compiled else 'up to date'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
