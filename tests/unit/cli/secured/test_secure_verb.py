"""The verb `secure`, with the arguments of the profile `secure` in docker-compose.yml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from minikafka.cli.main import main
from minikafka.cli.processes.broker import load_config
from minikafka.core.security.tls_stores import key_store_of_file
from minikafka.kernel.config import parse_properties
from minikafka.kernel.ports import ConnectionLost, World

COMPOSE = Path(__file__).parents[4] / "docker-compose.yml"
FOLDER = "/var/lib/minikafka-secured/keys"
NUMBERS = (1, 2, 3)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Mapping[str, str]]]:
    """Where users were written, and their passwords."""
    found: list[tuple[str, Mapping[str, str]]] = []

    async def set_up_users(world: World, connect: str, passwords: Mapping[str, str]) -> bool:
        found.append((connect, passwords))
        return True

    monkeypatch.setattr("minikafka.cli.secured.users.set_up_users", set_up_users)
    return found


def services() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]
    return found


@pytest.mark.mission("SEC-195")
def test_the_profile_of_compose_makes_settings_that_its_brokers_take(
    tmp_path: Path,
    written: list[tuple[str, Mapping[str, str]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = services()
    folder = tmp_path / "keys"
    setup = found["secure-setup"]
    verb = [*setup["entrypoint"][1:], *setup["command"]]
    assert main([word.replace(FOLDER, str(folder)) for word in verb]) == 0
    ((zookeeper, passwords),) = written
    printed = capsys.readouterr()
    assert not any(word in printed.out + printed.err for word in passwords.values())
    for number in NUMBERS:
        service = found[f"secure-broker-{number}"]
        option, path = service["command"].split()
        assert (option, path) == ("--config", f"{FOLDER}/broker-{number}.properties")
        environment = {key: str(value) for key, value in service["environment"].items()}
        file = folder / Path(path).name
        assert file.stat().st_mode & 0o777 == 0o600
        config = load_config(str(file), environment, ())
        assert config.string("zookeeper.connect") == zookeeper
        assert config.string("inter.broker.listener.name") == "INTERNAL"
        stored = parse_properties(file.read_text())
        for listener in ("internal", "external"):
            entry = stored[f"listener.name.{listener}.scram-sha-512.sasl.jaas.config"]
            assert passwords["broker"] in entry
        store = key_store_of_file((folder / f"broker-{number}.pem").read_bytes(), None, None)
        names = store.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        hosts = names.value.get_values_for_type(x509.DNSName)
        assert hosts == [f"secure-broker-{number}", "localhost"]
    clients = parse_properties((folder / "clients" / "app" / "client.properties").read_text())
    ports = [found[f"secure-broker-{n}"]["ports"][0].split(":")[1] for n in NUMBERS]
    assert clients["bootstrap.servers"] == ",".join(f"localhost:{port}" for port in ports)


@pytest.mark.mission("SEC-195")
def test_only_brokers_of_the_profile_reach_its_zookeeper() -> None:
    found = services()
    near = [name for name, row in found.items() if "secure-zookeeper" in row.get("networks", ())]
    expected = ["secure-zookeeper", "secure-setup", *(f"secure-broker-{n}" for n in NUMBERS)]
    assert sorted(near) == sorted(expected)
    assert all(found[name]["profiles"] == ["secure"] for name in near)
    assert found["secure-zookeeper"]["networks"] == ["secure-zookeeper"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--bootstrap-server", "h:1"], "name each broker with --broker"),
        (["--bootstrap-server", "h:1", "--broker", "1"], "--broker needs KEY=VALUE"),
        (["--bootstrap-server", "h:1", "--broker", "one=h"], "a broker's id is a number"),
        (["--bootstrap-server", "h:x", "--broker", "1=h"], "is not host:port"),
        (["--bootstrap-server", "h:1", "--broker", "1=a b"], "neither a host name nor an address"),
    ],
)
def test_wrong_options_are_named(
    tmp_path: Path,
    written: list[object],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    complaint: str,
) -> None:
    where = ["--folder", str(tmp_path / "keys"), "--zookeeper", "z:2181"]
    assert main(["secure", *where, *words]) == (1 if "neither" in complaint else 2)
    assert complaint in capsys.readouterr().err
    assert written == []


def test_a_zookeeper_that_does_not_respond_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(*_: object) -> bool:
        raise ConnectionLost

    monkeypatch.setattr("minikafka.cli.secured.users.set_up_users", fail)
    where = ["--folder", str(tmp_path / "keys"), "--zookeeper", "z:2181"]
    assert main(["secure", *where, "--bootstrap-server", "h:1", "--broker", "1=h"]) == 1
    assert "users cannot be written at z:2181" in capsys.readouterr().err
