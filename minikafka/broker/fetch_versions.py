"""What each version of Fetch can say: one row a version, so that nobody else has to count."""

from __future__ import annotations

from typing import Final, NamedTuple

from minikafka.broker.record_formats import FETCH_FORMATS, FetchFormat
from minikafka.protocol.api_keys import ApiKey


class FetchVersion(NamedTuple):
    """``partition_bytes``: what naming a partition costs in a request, ``answer_bytes`` in an
    answer without records; tagged fields that are hardly ever there not counted."""

    records: FetchFormat
    by_id: bool  # topics go by id (KIP-516)
    replica_state: bool  # the follower's id stands in a tagged field (KIP-903)
    follower_reads: bool  # a follower may answer, the leader may send to one (KIP-392)
    storage_error: bool  # clients know KAFKA_STORAGE_ERROR
    names_leader: bool  # who leads instead is named, with its address (KIP-951)
    partition_bytes: int
    answer_bytes: int


def _bytes(*rows: tuple[int, int]) -> list[int]:
    """By version, from (first version, bytes from there on)."""
    return [max(row for row in rows if row[0] <= version)[1] for version in _VERSIONS]


_VERSIONS: Final = range(ApiKey.FETCH.max_version + 1)
_PARTITION_BYTES: Final = _bytes((0, 16), (5, 24), (9, 28), (12, 33))
_ANSWER_BYTES: Final = _bytes((0, 18), (4, 30), (5, 38), (11, 42), (12, 37))

FETCH_VERSIONS: Final = tuple(
    FetchVersion(
        records=FETCH_FORMATS[version],
        by_id=version >= 13,
        replica_state=version >= 15,
        follower_reads=version >= 11,
        storage_error=version >= 6,
        names_leader=version >= 16,
        partition_bytes=_PARTITION_BYTES[version],
        answer_bytes=_ANSWER_BYTES[version],
    )
    for version in _VERSIONS
)
