"""Hand-written bytes in a text: hex digits, 'text', and a comment after each #."""

import re

TOKEN = re.compile(r"'([^']*)'|([0-9a-fA-F]+)")


def golden(text: str) -> bytes:
    """Return the bytes of such a text: ``"0003 'abc'  # a string"`` has five."""
    out = bytearray()
    for line in text.splitlines():
        written = line.partition("#")[0].strip()
        assert not TOKEN.sub("", written).strip(), f"not hex: {line!r}"
        for quoted, digits in TOKEN.findall(written):
            out += bytes.fromhex(digits) if digits else quoted.encode()
    return bytes(out)
