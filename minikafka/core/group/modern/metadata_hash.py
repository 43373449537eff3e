"""The hash of the topics to which a group subscribes, by which it sees that they changed."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from minikafka.core.metadata_image import MetadataImage


def hash_of(topics: Iterable[str], image: MetadataImage) -> int:
    """Return a hash, as int64, of the existing topics among ``topics``: ids and partition counts.

    0 if there is none. Any hash will do: a coordinator that computes another one raises the epoch
    once. Kafka: ``Utils.computeGroupHash``.
    """
    state = blake2b(digest_size=8)
    existing = [topic for topic in sorted(topics) if topic in image.topic_ids]
    for topic in existing:
        state.update(image.topic_ids[topic].bytes)
        state.update(len(image.topics[topic]).to_bytes(4, "big"))
    return int.from_bytes(state.digest(), "big", signed=True) if existing else 0
