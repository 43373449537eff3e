"""The archive of Spark's classes: when a JVM may have one, which one, and what is kept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from minikafka.spark.class_archive import ClassArchive, class_archive

pytestmark = pytest.mark.mission("SPS-6")


class Place:
    """A Java, a Spark and a cache of archives."""

    def __init__(self, folder: Path) -> None:
        self.cache, self.java, self.spark = folder / "cache", folder / "java", folder / "spark"
        self.own_classes = self.java / "lib" / "server" / "classes.jsa"
        self.jar = self.spark / "jars" / "spark-core.jar"
        for file in (self.own_classes, self.jar):
            file.parent.mkdir(parents=True)
            file.write_bytes(b"1")

    def archive(self, options: Sequence[str] = (), **environ: str) -> ClassArchive | None:
        return class_archive(self.cache, self.java, self.spark, options, environ)

    def written(self, options: Sequence[str] = (), content: bytes = b"\xf0\x0b") -> ClassArchive:
        """Return the archive after a run whose JVM has written it."""
        archive = self.archive(options)
        assert archive is not None
        archive.draft.write_bytes(content)
        archive.keep()
        return archive


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_second_jvm_writes_the_archive_and_the_next_one_uses_it(place: Place) -> None:
    runs = [place.archive() for _ in range(3)]
    first, second, third = (each for each in runs if each is not None)
    assert not first.is_due()
    assert second.is_due()
    assert f"-XX:ArchiveClassesAtExit={second.draft}" in second.java_options()
    place.written()
    assert third.is_due()
    assert third.exists
    assert f"-XX:SharedArchiveFile={first.path}" in third.java_options()
    third.path.unlink()  # it is like new then
    assert not third.is_due()


def test_other_jars_another_java_and_another_heap_get_another_archive(place: Place) -> None:
    archive = place.written(["-XX:+UseSerialGC"])
    assert place.archive(["-XX:+UseSerialGC", "-Djava.io.tmpdir=/tmp/x"]) == archive
    paths = {archive.path}
    for changed in (place.jar, place.own_classes):
        os.utime(changed, (1, 1))
        other = place.archive(["-XX:+UseSerialGC"])
        assert other is not None
        assert not other.exists
        paths.add(other.path)
    for options in (["-XX:+UseG1GC"], ["-XX:+UseSerialGC", "-Xmx40g"]):
        other = place.archive(options)
        assert other is not None
        paths.add(other.path)
    assert len(paths) == 5


@pytest.mark.parametrize(
    "option", ["-Xshare:off", "-XX:SharedArchiveFile=a.jsa", "-XX:ArchiveClassesAtExit=a.jsa"]
)
def test_an_archive_of_the_user_has_priority(place: Place, option: str) -> None:
    assert place.archive([option]) is None


def test_there_is_none_where_a_jvm_could_not_write_it(place: Place) -> None:
    assert place.archive(HADOOP_CONF_DIR="/etc/hadoop") is None
    (place.spark / "conf").mkdir()
    assert place.archive() is None
    (place.spark / "conf").rmdir()
    assert place.archive() is not None
    place.own_classes.unlink()
    assert place.archive() is None


def test_a_part_of_an_archive_is_not_kept(place: Place) -> None:
    archive = place.written(content=bytes(100))
    assert not archive.exists
    assert not archive.draft.exists()
    archive.keep()  # the JVM has written nothing


def test_the_archives_used_last_are_kept(place: Place) -> None:
    archives = [place.written([f"-Xmx{number}g"]) for number in range(3)]
    for age, archive in enumerate(archives):
        archive.path.touch()
        os.utime(archive.path, (1000 - age, 1000 - age))
    stale, running = place.cache / "a.jsa.1", place.cache / "a.jsa.2"
    stale.touch()
    os.utime(stale, (1000, 1000))
    running.touch()
    archives[2].keep()  # used again
    kept = {file.name for file in place.cache.iterdir()}
    assert kept == {archives[2].path.name, archives[0].path.name, running.name}
