"""The hash of the topics to which a group subscribes; a different hash raises the group epoch.

Records of groups contain it. It is Kafka's (``Utils.computeGroupHash``), so that Kafka's
coordinator finds no change when it loads these records.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack
from typing import Final

from xxhash import xxh3_64_intdigest

from minikafka.core.metadata_image import MetadataImage

_VERSION: Final = b"\x00"


def hash_of(topics: Iterable[str], image: MetadataImage) -> int:
    """Return the hash, as int64, of those of ``topics`` that exist; 0 if there is none."""
    existing = sorted(topic for topic in topics if topic in image.topic_ids)
    if not existing:
        return 0
    return _signed(b"".join(pack("<q", topic_hash(topic, image)) for topic in existing))


def topic_hash(topic: str, image: MetadataImage) -> int:
    """Return the hash, as int64, of a topic's id and name and of its partitions' racks. The image
    caches it."""
    known = image.topic_hashes.get(topic)
    if known is None:
        known = image.topic_hashes[topic] = _signed(_facts(topic, image))
    return known


def _facts(topic: str, image: MetadataImage) -> bytes:
    partitions, racks_of = image.topics[topic], image.racks
    racks: dict[tuple[int, ...], bytes] = {}  # partitions on the same brokers have the same racks
    high, low = divmod(image.topic_ids[topic].int, 1 << 64)
    facts = [_VERSION, pack("<QQ", high, low), _string(topic), pack("<i", len(partitions))]
    for index in range(len(partitions)):
        facts.append(pack("<i", index))
        partition = partitions.get(index)
        if racks_of and partition is not None:
            replicas = partition.replicas
            if replicas not in racks:
                named = sorted(racks_of[replica] for replica in replicas if replica in racks_of)
                racks[replicas] = b"".join(pack("<i", _length(r)) + _string(r) for r in named)
            facts.append(racks[replicas])
    return b"".join(facts)


def _string(text: str) -> bytes:
    """Encode a string as hash4j's ``HashStream64.putString``: its UTF-16 units, then their
    number."""
    return text.encode("utf-16-le", "surrogatepass") + pack("<i", _length(text))


def _length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _signed(data: bytes) -> int:
    value = xxh3_64_intdigest(data)
    return value - (1 << 64) if value >> 63 else value
