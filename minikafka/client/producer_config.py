"""The configuration of producers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from minikafka.protocol.records.compression import Compression

MAX_IDEMPOTENT_IN_FLIGHT: Final = 5  # as many batches of a partition as a broker remembers

# (topic, key, value, count of partitions, those with a leader) -> partition
Partitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, int, Sequence[int]], int]


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """Kafka's producer keys in snake case, with the defaults of Kafka 3.9's producer.

    ``acks``: 0, 1, or -1 for all. ``partitioner`` says what happens to records without key: sticky
    (since 2.4), round_robin (before), or decides of all by itself. ``enable_idempotence`` None:
    with acks=-1, where the brokers can.
    """

    acks: int = -1
    compression: Compression = Compression.NONE
    compression_level: int | None = None
    linger_ms: int = 0
    batch_size: int = 16_384
    buffer_memory: int = 33_554_432
    max_request_size: int = 1_048_576
    max_block_ms: int = 60_000
    delivery_timeout_ms: int = 120_000
    retries: int = 2_147_483_647
    enable_idempotence: bool | None = None
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    partitioner: Literal["sticky", "round_robin"] | Partitioner = "sticky"

    def idempotent(self, max_in_flight: int) -> bool | None:
        """None: if the brokers can. Raises ValueError for keys that exclude each other."""
        fits = self.acks == -1 and self.retries > 0 and max_in_flight <= MAX_IDEMPOTENT_IN_FLIGHT
        wanted = self.enable_idempotence or self.transactional_id is not None
        if wanted and (not fits or self.enable_idempotence is False):
            raise ValueError(
                "enable.idempotence needs acks=all, retries, and at most "
                f"{MAX_IDEMPOTENT_IN_FLIGHT} requests in flight per connection"
            )
        if wanted:
            return True
        if self.enable_idempotence is None:
            return None if fits else False
        return self.enable_idempotence
