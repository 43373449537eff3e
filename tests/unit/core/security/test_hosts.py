"""Addresses as Java writes them."""

import pytest

from minikafka.core.security.hosts import java_address


@pytest.mark.mission("SEC-132")
@pytest.mark.parametrize(
    ("address", "java"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("::ffff:7f00:1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::", "0:0:0:0:0:0:0:0"),
        ("2001:db8::00ff", "2001:db8:0:0:0:0:0:ff"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("client-7", "client-7"),
        ("no:address", "no:address"),
        ("", ""),
    ],
)
def test_an_address_is_written_as_java_writes_it(address: str, java: str) -> None:
    assert java_address(address) == java
