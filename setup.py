"""Compiles with mypyc what a request runs through; everything else is in pyproject.toml.

``[tool.minikafka] compiled`` of pyproject.toml lists the modules. They share one library beside
the package. An editable installation, which is made often, compiles only ``PER_RECORD``: without
it a batch of 150 records takes four times as long to check. Python runs the same source where
nothing is compiled: with ``MINIKAFKA_PURE=1``, and without a C compiler. There the build says so
and goes on.

``CFLAGS=-O0`` compiles in a third of the time, for tests. ``MINIKAFKA_OBJECTS`` may name a
directory that keeps object files for the next build (scripts/compile).
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
import sysconfig
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# Other commands (sdist, egg_info) need no extensions.
COMPILING = {"bdist_wheel", "build", "build_ext", "editable_wheel", "install"}
# The loops over the records of a batch. scripts/setup installs again when they have changed, since
# an extension beside its source is imported instead of it.
PER_RECORD = ["minikafka/protocol/records/record_loop.py"]
GROUP = "minikafka_compiled"  # minikafka_compiled__mypyc.*.so, beside the package
OPTIMIZATION = "2"
WORK = "build/mypyc"


def modules() -> list[str]:
    """The paths of the modules to compile; none if the result would not be used."""
    if os.environ.get("MINIKAFKA_PURE") or not COMPILING.intersection(sys.argv):
        return []
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        print(f"minikafka is not compiled, and so slower: there is no {compiler}", file=sys.stderr)
        return []
    if "editable_wheel" in sys.argv:
        return PER_RECORD
    project = tomllib.loads(Path("pyproject.toml").read_text())
    listed: list[str] = project["tool"]["minikafka"]["compiled"]
    return listed


def extensions() -> list[Extension]:
    """Translate the modules to C. An error of mypyc ends the process, after its message."""
    paths = modules()
    if not paths:
        if "editable_wheel" in sys.argv:  # those of an earlier installation would be imported
            for path in [*Path().glob(f"{GROUP}__mypyc.*.so"), *Path("minikafka").rglob("*.so")]:
                path.unlink()
        return []
    from mypyc.build import mypycify

    # Without the settings for mypy: packages that these depend on may not be installed.
    found = mypycify(
        [
            "--config-file=",
            "--ignore-missing-imports",
            f"--cache-dir={WORK}/mypy",
            *paths,
        ],
        target_dir=f"{WORK}/c",
        opt_level=OPTIMIZATION,
        debug_level="0",
        multi_file=True,
        group_name=GROUP,
    )
    unwanted = {"-Werror"}  # a later compiler may warn of more
    if "-O" in os.environ.get("CFLAGS", ""):
        unwanted.add(f"-O{OPTIMIZATION}")
    for extension in found:
        extension.extra_compile_args = [
            flag for flag in extension.extra_compile_args if flag not in unwanted
        ]
        if sys.platform == "linux":
            # Calls within the library then need no table, and it needs no names.
            extension.extra_compile_args.append("-fvisibility=hidden")
            extension.extra_link_args.append("-s")
    return found


class BuildExtensions(build_ext):
    """Compiles several files at a time. Either all extensions are built, or none."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = os.cpu_count()

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:
            for path in map(Path, self.get_outputs()):
                path.unlink(missing_ok=True)
            self.extensions = []
            print(f"minikafka is not compiled, and so slower: {error}", file=sys.stderr)

    def build_extensions(self) -> None:
        compile_one = self.compiler.compile
        objects = os.environ.get("MINIKAFKA_OBJECTS")
        if objects:
            compile_one = Cache(Path(objects), self.compiler).compile

        def compile_all(sources: list[str], *args: Any, **keywords: Any) -> list[str]:
            largest_first = sorted(sources, key=os.path.getsize, reverse=True)
            pool = ThreadPoolExecutor(os.cpu_count())
            made = pool.map(lambda path: compile_one([path], *args, **keywords), largest_first)
            try:
                return [path for paths in made for path in paths]
            finally:
                pool.shutdown(cancel_futures=True)  # after an error

        self.compiler.compile = compile_all
        super().build_extensions()


class Cache:
    """Object files by the hash of what they are made from."""

    def __init__(self, directory: Path, compiler: Any) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._object_filenames = compiler.object_filenames
        self._compile = compiler.compile
        headers = b"".join(path.read_bytes() for path in sorted(Path(WORK).rglob("*.h")))
        self._common = hashlib.sha256(headers + f"{sys.version}{compiler.compiler_so}".encode())

    def compile(self, sources: list[str], output_dir: str, **keywords: Any) -> list[str]:
        (source,) = sources
        (target,) = self._object_filenames(sources, output_dir=output_dir)
        key = self._common.copy()
        key.update(Path(source).read_bytes() + str(sorted(keywords.items())).encode())
        kept = self._directory / f"{key.hexdigest()}.o"
        if not kept.exists():
            self._compile(sources, output_dir=output_dir, **keywords)
            shutil.copy(target, kept)
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(kept, target)
        return [target]


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildExtensions})
