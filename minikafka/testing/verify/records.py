"""Keys and values of the records of a run: the value contains the record's identity."""

from __future__ import annotations

from minikafka.testing.verify.history import RecordId


def value_of(run: bytes, record: RecordId, size_bytes: int) -> bytes:
    """Return ``run producer number`` padded with dots to ``size_bytes``."""
    return (b"%s %d %d " % (run, *record)).ljust(size_bytes, b".")


def key_of(producer: int, partition: int, key: int) -> bytes:
    return b"%d-%d-%d" % (producer, partition, key)


def identify(run: bytes, value: bytes | None) -> RecordId | None:
    """Return the identity in a record's value; None if the record is not of this run."""
    words = (value or b"").split(b" ")
    if len(words) != 4 or words[0] != run or words[3].strip(b"."):
        return None
    if not (words[1].isdigit() and words[2].isdigit()):
        return None
    return RecordId(int(words[1]), int(words[2]))
