"""The configuration of producers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, Protocol, SupportsIndex, TypeAlias

from minikafka.client.config import check_least
from minikafka.client.serialization import AnySerializer, check_serialization
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.records.compression import Compression

MAX_IDEMPOTENT_IN_FLIGHT: Final = 5  # as many batches of a partition as a broker remembers

# (topic, serialized key and value, count of partitions, those with a leader) -> partition
PartitionFunction: TypeAlias = Callable[
    [str, bytes | None, bytes | None, int, Sequence[int]], SupportsIndex
]


class BatchAwarePartitioner(Protocol):
    """A partitioner that is called before a batch begins, so that it can be sticky (KIP-480)."""

    def __call__(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition_count: int,
        available: Sequence[int],
        /,
    ) -> SupportsIndex: ...

    def on_new_batch(
        self, topic: str, partition_count: int, available: Sequence[int], previous: int, /
    ) -> None:
        """Note that the record would begin a batch of ``previous``, which was just chosen. The
        partitioner is called again for the same record, and its second choice is taken."""


Partitioner: TypeAlias = PartitionFunction | BatchAwarePartitioner

_ACKS: Final = {"0": 0, "1": 1, "-1": -1, "all": -1}
_PARTITIONERS: Final = ("sticky", "round_robin")
_LEAST: Final = {
    "linger_ms": 0,
    "batch_size": 0,
    "buffer_memory": 0,
    "max_request_size": 0,
    "max_block_ms": 0,
    "delivery_timeout_ms": 0,
    "retries": 0,
    "transaction_timeout_ms": 1,
}
# KIP-390; None and gzip's -1 stand for the codec's own default.
_LEVELS: Final = {
    Compression.GZIP: (1, 9),
    Compression.LZ4: (1, 17),
    Compression.ZSTD: (-131_072, 22),
}


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """Kafka's producer keys in snake case, with the defaults of Kafka 3.9's producer.

    ``acks``: 0, 1, or -1 for all. Kafka's words do as well: ``acks="all"``, ``compression="lz4"``.
    ``partitioner`` places records without a key: "sticky" (the default since Kafka 2.4) or
    "round_robin" (before). A function places all records that name no partition. The serializers
    are functions of the data, or objects with Kafka's ``serialize(topic, data)``; without one, keys
    and values are bytes. ``enable_idempotence`` None means: with acks=-1, where the brokers can.
    Raises ValueError for values that cannot be.
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
    key_serializer: AnySerializer | None = None
    value_serializer: AnySerializer | None = None

    def __post_init__(self) -> None:
        acks = _ACKS.get(str(self.acks))
        if acks is None:
            raise ValueError(f"acks must be 0, 1, -1 or all, not {self.acks!r}")
        object.__setattr__(self, "acks", acks)  # a word becomes its number, once and here
        object.__setattr__(self, "compression", _codec(self.compression))
        _check_level(self.compression, self.compression_level)
        check_least(self, _LEAST)
        if self.partitioner not in _PARTITIONERS and not callable(self.partitioner):
            named = ", ".join(_PARTITIONERS)
            raise ValueError(f"partitioner must be {named} or a function, not {self.partitioner!r}")
        check_serialization("key.serializer", self.key_serializer, "serialize")
        check_serialization("value.serializer", self.value_serializer, "serialize")
        if self.transactional_id == "":
            raise ValueError("transactional.id must not be empty")

    def idempotent(self, max_in_flight: int) -> bool | None:
        """Return whether batches carry sequences; None: if the brokers can. Raises ValueError for
        keys that exclude each other."""
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


def _codec(codec: object) -> Compression:
    """Return a codec given by itself or by its name in Kafka. Raises ValueError."""
    names = {known.name.lower(): known for known in Compression}
    if isinstance(codec, Compression):
        return codec
    if not isinstance(codec, str) or codec not in names:
        raise ValueError(f"compression.type must be {', '.join(names)}, not {codec!r}")
    return names[codec]


def _check_level(codec: Compression, level: object) -> None:
    """Check a compression level. Raises ValueError."""
    if level is None or codec not in _LEVELS or (codec is Compression.GZIP and level == -1):
        return
    least, most = _LEVELS[codec]
    if not isinstance(level, int) or not least <= level <= most:
        key = f"compression.{codec.name.lower()}.level"
        raise ValueError(f"{key} must be a whole number from {least} to {most}, not {level!r}")
