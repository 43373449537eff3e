"""Java's names of cipher suites become OpenSSL's."""

import ssl

import pytest

from minikafka.core.security.cipher_suites import UnknownCipherSuite, openssl_suites


@pytest.mark.mission("SEC-124")
def test_suites_have_the_names_of_openssl() -> None:
    assert openssl_suites(
        [
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384",
            "TLS_DHE_RSA_WITH_AES_256_CBC_SHA",
            "TLS_RSA_WITH_AES_128_CBC_SHA256",
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            "TLS_AES_256_GCM_SHA384",
            "ECDHE-RSA-AES128-SHA256",
        ]
    ) == (
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-SHA384",
        "DHE-RSA-AES256-SHA",
        "AES128-SHA256",
        "ECDHE-RSA-CHACHA20-POLY1305",
        "ECDHE-RSA-AES128-SHA256",
    )


@pytest.mark.mission("SEC-124")
def test_openssl_knows_every_suite() -> None:
    java = [
        f"TLS_{exchange}_WITH_AES_{bits}_{mode}"
        for exchange in ("ECDHE_RSA", "ECDHE_ECDSA", "DHE_RSA", "RSA")
        for bits, mode in ((128, "GCM_SHA256"), (256, "GCM_SHA384"), (128, "CBC_SHA256"))
    ]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for suite in openssl_suites(java):
        context.set_ciphers(suite)


@pytest.mark.mission("SEC-124")
@pytest.mark.parametrize("name", ["", "AES", "TLS_RSA_WITH_RC4_128_MD5", "TLS_NONE", "a:b", "ALL"])
def test_an_unknown_suite_is_refused(name: str) -> None:
    with pytest.raises(UnknownCipherSuite, match="no cipher suite"):
        openssl_suites([name])
