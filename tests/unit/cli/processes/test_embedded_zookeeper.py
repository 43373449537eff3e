"""Where the embedded ZooKeeper finds its jars and its Java, and its configuration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minikafka.cli.processes.embedded_zookeeper import (
    MAIN_CLASS,
    NEEDED_JARS,
    NETTY_JARS,
    ZookeeperError,
    ZookeeperOptions,
    claim_directory,
    class_path,
    command_line,
    find_jar,
    find_java,
    jar_folders,
    last_words,
    server_config,
    words_path,
)
from minikafka.cli.processes.zookeeper_security import (
    CredentialsError,
    server_security,
    write_users,
)
from minikafka.core.security.jaas import parse_jaas_file


def fill(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def versioned(folder: Path) -> Path:
    """As PySpark ships them, with others whose names begin alike."""
    names = [f"{name}-1.2.3.jar" for name in NEEDED_JARS]
    return fill(folder, *names, "zookeeper-recipes-1.2.3.jar", "slf4j-api.txt", "spark.jar")


def make_java(folder: Path) -> Path:
    fill(folder / "bin", "java")
    (folder / "bin" / "java").chmod(0o755)
    return folder / "bin" / "java"


def test_jars_are_found_with_and_without_version(tmp_path: Path) -> None:
    folder = versioned(tmp_path / "a")
    assert find_jar(folder, "zookeeper") == folder / "zookeeper-1.2.3.jar"
    assert find_jar(folder, "slf4j-nop") is None
    fill(folder, "zookeeper.jar")
    assert find_jar(folder, "zookeeper") == folder / "zookeeper.jar"


def test_all_jars_come_from_the_first_folder_that_has_them(tmp_path: Path) -> None:
    incomplete = fill(tmp_path / "a", "zookeeper.jar", "slf4j-api.jar")
    first = versioned(tmp_path / "b")
    fill(first, "slf4j-nop.jar")
    second = versioned(tmp_path / "c")
    found = class_path([tmp_path / "missing", incomplete, first, second])
    assert [jar.name for jar in found] == [
        *(f"{name}-1.2.3.jar" for name in NEEDED_JARS),
        "slf4j-nop.jar",
    ]
    assert {jar.parent for jar in found} == {first}
    fill(first, "slf4j-simple.jar")
    assert class_path([first])[-1].name == "slf4j-simple.jar", "it tells errors"


def test_missing_jars_are_reported_with_an_install_hint(tmp_path: Path) -> None:
    with pytest.raises(ZookeeperError) as raised:
        class_path([tmp_path])
    assert str(tmp_path) in str(raised.value)
    assert "ZooKeeper needs the extra java: pip install" in str(raised.value)
    assert "apt-get install zookeeper" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_zookeeper_home_comes_first(tmp_path: Path) -> None:
    folders = jar_folders({"ZOOKEEPER_HOME": str(tmp_path)})
    assert folders[:2] == [tmp_path / "lib", tmp_path]
    assert folders[2:] == jar_folders({})


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home, path = make_java(tmp_path / "home"), make_java(tmp_path / "path")
    both = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent)}
    assert find_java(both) == str(home)
    assert find_java({"PATH": str(path.parent)}) == str(path)
    assert find_java({**both, "JAVA_HOME": str(tmp_path / "nothing")}) == str(path)


def test_missing_java_is_reported_with_an_install_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ZookeeperError, match=r"no Java .* needs the extra java"):
        find_java({"PATH": str(tmp_path)})


def test_the_command(tmp_path: Path) -> None:
    jars = versioned(tmp_path / "home" / "lib")
    java = make_java(tmp_path / "java")
    options = ZookeeperOptions(str(tmp_path / "data"), heap_mb=77)
    environ = {"ZOOKEEPER_HOME": str(tmp_path / "home"), "JAVA_HOME": str(tmp_path / "java")}
    command = command_line(options, environ)
    assert command[:2] == [str(java), "-Xmx77m"]
    assert command[-4] == "-cp"
    assert command[-3] == os.pathsep.join(str(jars / f"{n}-1.2.3.jar") for n in NEEDED_JARS)
    assert command[-2:] == [MAIN_CLASS, str(tmp_path / "data" / "zoo.cfg")]


def test_the_configuration_honours_kafkas_session_time_outs(tmp_path: Path) -> None:
    rows = dict(
        line.split("=") for line in server_config(ZookeeperOptions(str(tmp_path), 2345)).split()
    )
    assert rows["dataDir"] == str(tmp_path)
    assert rows["clientPort"] == "2345"
    assert rows["maxClientCnxns"] == "0"
    assert int(rows["minSessionTimeout"]) <= 6000
    assert int(rows["maxSessionTimeout"]) >= 18000


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    options = ZookeeperOptions(str(tmp_path / "deep" / "er"))
    lock = claim_directory(options)
    with pytest.raises(ZookeeperError, match="deep/er is in use by another ZooKeeper"):
        claim_directory(options)
    os.close(lock)
    os.close(claim_directory(options))
    assert (tmp_path / "deep" / "er" / "zoo.cfg").read_text() == server_config(options)


def test_a_directory_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    fill(tmp_path, "file")
    with pytest.raises(ZookeeperError, match=r"data directory .*file/data: Not a directory"):
        claim_directory(ZookeeperOptions(str(tmp_path / "file" / "data")))


def test_last_words(tmp_path: Path) -> None:
    options = ZookeeperOptions(str(tmp_path))
    path = words_path(options)
    path.write_bytes(b"")
    assert last_words(options).startswith("it printed nothing; ")
    assert last_words(options).endswith(f" MB are free in {tmp_path}")
    path.write_bytes(b"one\nInvalid config, exiting \xff abnormally\n\n")
    said = "Invalid config, exiting \N{REPLACEMENT CHARACTER} abnormally"
    assert last_words(options) == f"{said} (more in {path})"
    reason = "java.io.FileNotFoundException: /data/version-2/snapshot.0 (Not a directory)"
    path.write_text(f"[main] ERROR - trouble\n{reason}\n\tat java.base/x\n[main] ERROR - Exiting\n")
    assert last_words(options) == f"{reason} (more in {path})"
    path.write_text(f"{reason}\nTerminating due to java.lang.OutOfMemoryError: Java heap space\n")
    more = "--heap, or --zookeeper-heap of up, gives it more"
    assert last_words(options) == f"its heap of {options.heap_mb} MB is used up; {more}"


@pytest.mark.mission("SEC-153")
def test_a_secured_server_has_users(tmp_path: Path) -> None:
    users = {"kafka": 'a"b\\c', "alice": "p w"}
    write_users(tmp_path, users)
    file = tmp_path / "users.jaas"
    assert file.stat().st_mode & 0o777 == 0o600
    (entry,) = parse_jaas_file(file.read_text())["Server"]
    assert entry.options == {f"user_{name}": password for name, password in users.items()}
    security = server_security(tmp_path)
    options = ZookeeperOptions(str(tmp_path / "data"), host="0.0.0.0", security=security)
    lines = server_config(options).splitlines()
    assert any(line.startswith("authProvider.sasl=") for line in lines)
    assert "clientPortAddress=0.0.0.0" in lines
    assert not any("ssl" in line or "secureClientPort" in line for line in lines)
    home = versioned(tmp_path / "home")
    environ = {"ZOOKEEPER_HOME": str(home), "JAVA_HOME": str(make_java(tmp_path / "j").parents[1])}
    fill(home, *(f"{name}.jar" for name in NETTY_JARS))
    command = command_line(options, environ)
    assert f"-Djava.security.auth.login.config={file}" in command
    assert str(home / "netty-handler.jar") in command[command.index("-cp") + 1]


@pytest.mark.mission("SEC-153")
def test_a_secured_server_has_a_tls_port(tmp_path: Path) -> None:
    fill(tmp_path, "keystore.p12", "keystore.password")
    security = server_security(tmp_path, 2182)
    options = ZookeeperOptions(str(tmp_path / "data"), host="0.0.0.0", security=security)
    lines = set(server_config(options).splitlines())
    assert {
        "clientPortAddress=127.0.0.1",
        "secureClientPort=2182",
        "secureClientPortAddress=0.0.0.0",
        "ssl.clientAuth=none",
        f"ssl.keyStore.location={tmp_path}/keystore.p12",
        f"ssl.keyStore.passwordPath={tmp_path}/keystore.password",
    } <= lines
    fill(tmp_path, "truststore.pem")
    assert server_security(tmp_path, 2182).properties["ssl.clientAuth"] == "need"


@pytest.mark.mission("SEC-153")
def test_a_server_without_credentials_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"has no users\.jaas, and no TLS port is given"):
        server_security(tmp_path)
    with pytest.raises(CredentialsError, match=r"has neither keystore\.pem nor keystore\.p12"):
        server_security(tmp_path, 2182)


def test_a_data_directory_of_any_characters_is_escaped_for_java() -> None:
    """``Properties.load`` reads ISO 8859-1: the server put its data into another directory."""
    lines = server_config(ZookeeperOptions("/d\u00fcrre\\\U0001f600 x", 2345)).splitlines()
    assert "dataDir=/d\\u00fcrre\\u005c\\ud83d\\ude00 x" in lines
