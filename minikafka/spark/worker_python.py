"""The interpreter of Spark's Python workers: a script that starts this Python with less to load."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

# Drops the archives of PySpark's sources from PYTHONPATH. The JVM puts them there, before the
# installed packages, for each worker that it starts. A module is run by the fork server, if there
# is one.
_SCRIPT: Final = """#!/bin/sh
kept=
set -f
IFS=:
for entry in $PYTHONPATH; do
    case "$entry" in
    '{lib}'/*.zip | '{jars}'/*.jar | '') ;;
    *) kept="${{kept:+$kept:}}$entry" ;;
    esac
done
PYTHONPATH="$kept"
export PYTHONPATH
if [ "$1" = -m ] && [ "$PYTHONHASHSEED" = 0 ] && [ -S "$MINIKAFKA_FORK_SERVER" ]; then
    exec '{python}' -I -S '{client}' "$@"
fi
exec '{python}' "$@"
"""


def worker_python(environ: Mapping[str, str], cache: Path) -> str:
    """Return the value for ``PYSPARK_PYTHON``, after writing the script that it names to ``cache``.

    The script starts this Python without the zip of PySpark's sources in its PYTHONPATH, so that
    PySpark is imported from the installed package. Python stores no bytecode for modules in a zip:
    every worker would compile PySpark again, which takes 0.9 s of CPU time instead of 0.25 s. Where
    a ``fork_server`` runs, the script lets it run the module.

    Returns the plain path of this Python if the script would not work: if PySpark is not installed,
    if SPARK_HOME is another Spark, on Windows, or if a path has a quote in it. Raises OSError."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None or os.name != "posix":
        return sys.executable
    home = Path(spec.origin).parent
    given = environ.get("SPARK_HOME")
    if given and Path(given).resolve() != home.resolve():
        return sys.executable
    paths = {
        "lib": str(Path(given or home) / "python" / "lib"),
        "jars": str(Path(given or home) / "jars"),
        "python": sys.executable,
        "client": str(Path(__file__).with_name("fork_client.py")),
    }
    if any("'" in path for path in paths.values()):
        return sys.executable
    text = _SCRIPT.format(**paths)
    script = cache / hashlib.sha256(text.encode()).hexdigest()[:12] / "python"
    write_script(script, text)
    return str(script)


def write_script(script: Path, text: str) -> None:
    """Write an executable file, unless it exists with this text. Raises OSError.

    The file is replaced atomically, because another process may start it at the same time."""
    if not (script.is_file() and script.read_text() == text and os.access(script, os.X_OK)):
        script.parent.mkdir(parents=True, exist_ok=True)
        draft = script.with_name(f"{script.name}.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(script)
