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


def _row(version: int) -> FetchVersion:
    flexible = version >= 12  # fields to compare epochs, and a byte for tags (KIP-482)
    return FetchVersion(
        records=FETCH_FORMATS[version],
        by_id=version >= 13,
        replica_state=version >= 15,
        follower_reads=version >= 11,
        storage_error=version >= 6,
        names_leader=version >= 16,
        partition_bytes=33 if flexible else 28 if version >= 9 else 24 if version >= 5 else 16,
        answer_bytes=41 - 4 if flexible else 42 if version >= 11 else 38 if version >= 5 else 30,
    )


FETCH_VERSIONS: Final = tuple(_row(version) for version in range(ApiKey.FETCH.max_version + 1))
