"""The configuration keys of TLS. Any of them may have the prefix of a listener."""

from __future__ import annotations

from minikafka.kernel.config import ConfigType, Setting, one_of, row_of

_bool = row_of(ConfigType.BOOLEAN)
_string = row_of(ConfigType.STRING)
_list = row_of(ConfigType.LIST)
_password = row_of(ConfigType.PASSWORD)

# fmt: off
TLS_SETTINGS: tuple[Setting, ...] = (
    _bool("ssl.allow.dn.changes", False, "Whether a key store that is loaded later may have a certificate with another distinguished name."),
    _bool("ssl.allow.san.changes", False, "Whether it may lack alternative names of the certificate before."),
    _list("ssl.cipher.suites", (), "Cipher suites of TLS 1.2 that may be used, by Java's or OpenSSL's names; all if empty. Those of TLS 1.3 cannot be chosen."),
    _string("ssl.client.auth", "none", "Whether clients of a TLS listener must show a certificate.", one_of("required", "requested", "none")),
    _list("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), "TLS versions that may be used, without a gap."),
    _string("ssl.endpoint.identification.algorithm", "https", "Whether the host name of another broker must be in its certificate: https, or empty for no."),
    _password("ssl.key.password", None, "Password of the private key, in PEM."),
    _password("ssl.keystore.certificate.chain", None, "The broker's certificates as PEM text, its own first."),
    _password("ssl.keystore.key", None, "The broker's private key as PEM text."),
    _string("ssl.keystore.location", None, "PEM or PKCS12 file with the broker's key and certificates."),
    _password("ssl.keystore.password", None, "Password of that file; none for PEM."),
    _string("ssl.principal.mapping.rules", "DEFAULT", "Rules that make a principal of the name in a client's certificate."),
    _password("ssl.truststore.certificates", None, "The trusted certificates as PEM text."),
    _string("ssl.truststore.location", None, "PEM or PKCS12 file with the trusted certificates."),
    _password("ssl.truststore.password", None, "Password of that file; none for PEM."),
)
# fmt: on
