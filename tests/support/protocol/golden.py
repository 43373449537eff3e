"""Hand-written bytes: hex digits, 'text', and a comment behind each #."""

import re

TOKEN = re.compile(r"'([^']*)'|([0-9a-fA-F]+)")


def golden(text: str) -> bytes:
    """``"0003 'abc'  # a string"`` -> the five bytes."""
    out = bytearray()
    for line in text.splitlines():
        written = line.partition("#")[0].strip()
        assert not TOKEN.sub("", written).strip(), f"not hex: {line!r}"
        for quoted, digits in TOKEN.findall(written):
            out += bytes.fromhex(digits) if digits else quoted.encode()
    return bytes(out)
