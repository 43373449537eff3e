"""The folder of `up --secure`: what is kept, what is made again, what is refused."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest
from cryptography import x509

from minikafka.cli.secured.folder import SecurityFolder
from minikafka.core.security.jaas import parse_jaas_property
from minikafka.core.security.tls_stores import key_store_of_file
from minikafka.kernel.config import ConfigError
from minikafka.spark.client_options import client_options

NOW = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)
HOSTS = ("localhost", "127.0.0.1", "::1")
LISTENERS = ("SASL_SSL",)


def certificate(folder: SecurityFolder, broker_id: int) -> x509.Certificate:
    data = (folder.path / f"broker-{broker_id}.pem").read_bytes()
    return key_store_of_file(data, None, None).certificate


@pytest.mark.mission("SEC-194")
def test_a_certificate_is_issued_again_only_when_it_must(tmp_path: Path) -> None:
    path = tmp_path / "security"
    folder = SecurityFolder(path, NOW)
    folder.broker_settings(1, HOSTS, LISTENERS)
    first = certificate(folder, 1)

    later = SecurityFolder(path, NOW + datetime.timedelta(days=700))
    later.broker_settings(1, HOSTS[:2], LISTENERS)
    assert certificate(later, 1) == first
    later.broker_settings(1, (*HOSTS, "renamed"), LISTENERS)
    second = certificate(later, 1)
    names = second.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "renamed"]

    at_the_end = SecurityFolder(path, NOW + datetime.timedelta(days=1500))
    at_the_end.broker_settings(1, HOSTS, LISTENERS)
    third = certificate(at_the_end, 1)
    assert third not in (first, second)
    third.verify_directly_issued_by(x509.load_pem_x509_certificate((path / "ca.pem").read_bytes()))
    assert at_the_end.passwords == folder.passwords

    (path / "broker-1.pem").write_text("garbage")
    at_the_end.broker_settings(1, HOSTS, LISTENERS)
    assert certificate(at_the_end, 1).subject == first.subject


@pytest.mark.mission("SEC-194")
def test_an_authority_that_cannot_issue_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "security"
    SecurityFolder(path, NOW)
    with pytest.raises(ConfigError, match=f"ends within a month; delete {re.escape(str(path))}"):
        SecurityFolder(path, NOW + datetime.timedelta(days=3630))
    (path / "ca.pem").write_text("garbage")
    with pytest.raises(ConfigError, match="cannot be read; delete"):
        SecurityFolder(path, NOW)


@pytest.mark.mission("SEC-193")
def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "security"
    SecurityFolder(path, NOW)
    path.chmod(0o750)
    with pytest.raises(ConfigError, match="other users may enter"):
        SecurityFolder(path, NOW)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="not a folder of this user"):
        SecurityFolder(link, NOW)


@pytest.mark.mission("SEC-193")
def test_files_are_private_whatever_the_umask_is(tmp_path: Path) -> None:
    path = tmp_path / "security"
    folder = SecurityFolder(path, NOW)
    folder.broker_settings(1, HOSTS, LISTENERS)
    folder.write_client_files("127.0.0.1:9092")
    modes = {each.stat().st_mode & 0o777 for each in path.rglob("*") if each.is_file()}
    assert modes == {0o600}
    modes = {each.stat().st_mode & 0o777 for each in (path, *path.rglob("*")) if each.is_dir()}
    assert modes == {0o700}


def test_a_host_that_is_no_name_is_refused(tmp_path: Path) -> None:
    folder = SecurityFolder(tmp_path / "security", NOW)
    with pytest.raises(ConfigError, match="'a b' is neither a host name nor an address"):
        folder.broker_settings(1, ("a b",), LISTENERS)


@pytest.mark.mission("SEC-193")
def test_the_block_that_is_printed_has_no_password(tmp_path: Path) -> None:
    folder = SecurityFolder(tmp_path / "security", NOW)
    text = "\n".join(folder.summary())
    assert not any(word in text for word in folder.passwords.values())


@pytest.mark.mission("SEC-191")
def test_our_spark_source_takes_its_options(tmp_path: Path) -> None:
    import runpy

    folder = SecurityFolder(tmp_path / "security", NOW)
    folder.write_client_files("127.0.0.1:9092")
    found = runpy.run_path(str(folder.clients / "app" / "for_spark.py"))
    options = client_options({key.lower(): text for key, text in found["OPTIONS"].items()})
    assert options.security.security_protocol == "SASL_SSL"
    assert options.security.sasl_jaas_config is not None
    login = parse_jaas_property(options.security.sasl_jaas_config)
    assert login.options == {"username": "app", "password": folder.passwords["app"]}
    assert found["CONNECTOR_OPTIONS"] == found["OPTIONS"] | {"groupIdPrefix": "app-spark"}
