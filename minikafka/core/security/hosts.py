"""Addresses of clients as Java's ``InetAddress.getHostAddress`` writes them.

ACLs, the audit log and quotas of addresses compare this text.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv6Address


def java_address(address: str) -> str:
    """Return an address of a socket in Java's form. IPv4 addresses that an IPv6 socket shows as
    ``::ffff:127.0.0.1`` become ``127.0.0.1``; IPv6 addresses have eight groups without leading
    zeros, and keep their scope: ``fe80:0:0:0:0:0:0:1%eth0``. Any other text is returned as it is.
    """
    if ":" not in address:
        return address
    plain, percent, scope = address.partition("%")
    try:
        parsed = IPv6Address(plain)
    except AddressValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    groups = parsed.exploded.split(":")
    return ":".join(group.lstrip("0") or "0" for group in groups) + percent + scope
