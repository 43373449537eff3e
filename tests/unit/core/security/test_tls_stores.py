"""Key stores and trust stores: PEM and PKCS#12 are read, everything else has a clear error."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509

from minikafka.core.security.tls_stores import (
    KeyStore,
    StoreError,
    key_store_of_file,
    key_store_of_pem,
    trust_store_of_file,
    trust_store_of_pem,
)
from tests.support.security.certificates import Authority, Identity


@pytest.fixture(scope="module")
def identity() -> Identity:
    return Authority().issue("broker")


def same(store: KeyStore, identity: Identity) -> bool:
    chain = x509.load_pem_x509_certificates(store.chain)
    return chain == [identity.certificate, identity.authority] and store.key == identity.key_pem()


@pytest.mark.mission("SEC-122")
def test_a_key_store_may_be_pem_or_pkcs12(identity: Identity) -> None:
    pem = identity.key_pem() + identity.chain_pem
    assert same(key_store_of_file(pem, None, None), identity)
    locked = identity.chain_pem + identity.key_pem("pw")
    assert same(key_store_of_file(locked, None, "pw"), identity)
    assert same(key_store_of_pem(identity.key_pem("pw"), identity.chain_pem, "pw"), identity)
    assert same(key_store_of_file(identity.pkcs12("store"), "store", None), identity)


@pytest.mark.mission("SEC-122")
def test_a_trust_store_may_be_pem_or_pkcs12(identity: Identity) -> None:
    assert trust_store_of_file(identity.authority_pem, None) == identity.authority_pem
    assert trust_store_of_pem(b"# ours\n" + identity.authority_pem) == identity.authority_pem
    assert trust_store_of_file(identity.pkcs12("pw"), "pw").count(b"BEGIN CERTIFICATE") == 2


@pytest.mark.mission("SEC-122")
@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (lambda i: key_store_of_file(i.pkcs12("pw"), "other", None), "cannot be opened"),
        (lambda i: key_store_of_file(i.pkcs12("pw"), None, None), "needs its password"),
        (lambda i: key_store_of_file(i.chain_pem, None, None), "one private key is needed, not 0"),
        (lambda i: key_store_of_file(i.key_pem(), None, None), "no certificate"),
        (lambda i: key_store_of_file(i.key_pem("a") + i.chain_pem, None, "b"), "does not open it"),
        (lambda i: key_store_of_file(i.key_pem("a") + i.chain_pem, None, None), "is encrypted"),
        (lambda i: key_store_of_file(i.key_pem() + i.chain_pem, "pw", None), "no store password"),
        (lambda i: key_store_of_pem(i.key_pem(), i.authority_pem, None), "not that of the private"),
        (lambda i: key_store_of_pem(i.key_pem() * 2, i.chain_pem, None), "needed, not 2"),
        (lambda i: key_store_of_file(b"\xfe\xed\xfe\xed\0\0", "pw", None), "keytool -importkey"),
        (lambda i: key_store_of_file(b"garbage", "pw", None), "neither PEM nor PKCS12"),
        (lambda i: key_store_of_file(b"", "pw", None), "neither PEM nor PKCS12"),
        (lambda i: trust_store_of_file(i.trust_pkcs12("pw"), None), "without a password"),
        (lambda i: trust_store_of_file(i.key_pem(), None), "no certificate"),
        (lambda i: trust_store_of_file(b"-----BEGIN CERTIFICATE-----\nAA==\n-----END "
                                       b"CERTIFICATE-----\n", None), "cannot be read"),
    ],
)  # fmt: skip
def test_a_store_that_cannot_be_read_says_why(
    identity: Identity, read: Callable[[Identity], object], reason: str
) -> None:
    with pytest.raises(StoreError, match=reason):
        read(identity)


@pytest.mark.mission("SEC-122")
@pytest.mark.skipif(shutil.which("keytool") is None, reason="keytool comes with Java")
def test_stores_of_keytool_are_read(tmp_path: Path) -> None:
    def keytool(*arguments: str) -> None:
        subprocess.run(
            ["keytool", *arguments, "-storepass", "secret1"],
            cwd=tmp_path, check=True, capture_output=True,
        )  # fmt: skip

    keytool("-genkeypair", "-keystore", "k.p12", "-alias", "a", "-keyalg", "EC",
            "-dname", "CN=from java", "-validity", "1")  # fmt: skip
    keytool("-exportcert", "-keystore", "k.p12", "-alias", "a", "-rfc", "-file", "c.pem")
    keytool("-importcert", "-keystore", "t.p12", "-alias", "a", "-file", "c.pem", "-noprompt")
    keytool("-importcert", "-keystore", "t.jks", "-storetype", "JKS", "-alias", "a",
            "-file", "c.pem", "-noprompt")  # fmt: skip
    store = key_store_of_file((tmp_path / "k.p12").read_bytes(), "secret1", None)
    assert store.certificate.subject.rfc4514_string() == "CN=from java"
    trusted = trust_store_of_file((tmp_path / "t.p12").read_bytes(), "secret1")
    assert x509.load_pem_x509_certificate(trusted) == store.certificate
    with pytest.raises(StoreError, match="deststoretype PKCS12"):
        trust_store_of_file((tmp_path / "t.jks").read_bytes(), "secret1")


def test_blanks_may_stand_for_the_ends_of_lines(identity: Identity) -> None:
    """As in a properties file. OpenSSL does not read them so."""

    def one_line(pem: bytes) -> bytes:
        return b" ".join(pem.split(b"\n"))

    assert trust_store_of_pem(one_line(identity.authority_pem)) == identity.authority_pem
    store = key_store_of_pem(one_line(identity.key_pem()), one_line(identity.chain_pem), None)
    assert store.chain == identity.chain_pem


def test_a_key_store_does_not_show_its_key(identity: Identity) -> None:
    store = key_store_of_pem(identity.key_pem(), identity.chain_pem, None)
    assert "PRIVATE" not in repr(store)
