"""The names of users, client ids and IP addresses as names of znodes (Kafka's ``Sanitizer``)."""

from __future__ import annotations

from urllib.parse import quote, unquote_plus

DEFAULT_NAME = "<default>"  # the znode of the default entity, whose name is None on the wire


def sanitized(name: str | None) -> str:
    """Return the URL-encoded name. A blank becomes ``%20``; ``-``, ``_`` and ``.`` stay."""
    if name is None:
        return DEFAULT_NAME
    encoded = quote(name, safe="-._", encoding="utf-8", errors="replace")
    return encoded.replace("~", "%7E")


def desanitized(znode: str) -> str | None:
    """Return the name from which ``sanitized`` made this text."""
    return None if znode == DEFAULT_NAME else unquote_plus(znode)
