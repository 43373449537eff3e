"""The configuration of consumers."""

from __future__ import annotations

from dataclasses import fields
from typing import Literal

from minikafka.client.config import check_least
from minikafka.client.serialization import AnyDeserializer, check_serialization
from minikafka.core.client.assignors.catalogue import DEFAULT_STRATEGY, resolve_strategy
from minikafka.core.client.assignors.model import Assignor
from minikafka.core.client.consumer.consumer_membership import ConsumerMembershipConfig
from minikafka.core.client.consumer.membership import GroupRebalanceConfig
from minikafka.core.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from minikafka.kernel.lazy_dataclass import dataclass

# As Kafka checks them: capitals are not the same.
_CHOICES = {
    "group_protocol": ("classic", "consumer"),
    "auto_offset_reset": ("earliest", "latest", "none"),
    "isolation_level": ("read_uncommitted", "read_committed"),
}
# Kafka refuses these keys with the other protocol, whatever their values are.
_OF_CLASSIC = (
    "partition_assignment_strategy",
    "session_timeout_ms",
    "heartbeat_interval_ms",
)
_LEAST = {
    "auto_commit_interval_ms": 0,
    "max_poll_interval_ms": 1,
    "max_poll_records": 1,
    "fetch_min_bytes": 0,
    "fetch_max_bytes": 0,
    "fetch_max_wait_ms": 0,
    "max_partition_fetch_bytes": 0,
}


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """Kafka's consumer keys in snake case, with Kafka's defaults.

    ``partition_assignment_strategy``: names (range, roundrobin, sticky, cooperative-sticky) or
    assignors of your own, by preference; rebalances are cooperative if all of them are.
    ``fetch_max_bytes`` also bounds what is fetched ahead and not handed out. ``enable_auto_commit``
    has an effect with a ``group_id`` only.

    With ``group_protocol`` "consumer" (KIP-848, brokers of Kafka 4) the coordinator assigns the
    partitions, by ``group_remote_assignor`` ("uniform" or "range") if it is set, and its settings
    replace ``partition_assignment_strategy``, ``session_timeout_ms`` and
    ``heartbeat_interval_ms``, which keep their defaults then.

    The deserializers are functions of the bytes, or objects
    with Kafka's ``deserialize(topic, data)``; without one, keys and values are bytes. Raises
    ValueError for values that cannot be.
    """

    group_id: str | None = None
    group_instance_id: str | None = None
    group_protocol: Literal["classic", "consumer"] = "classic"
    group_remote_assignor: str | None = None
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    auto_offset_reset: Literal["earliest", "latest", "none"] = "latest"
    partition_assignment_strategy: tuple[str | Assignor, ...] = DEFAULT_STRATEGY
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    exclude_internal_topics: bool = True
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1_048_576
    check_crcs: bool = True
    client_rack: str = ""
    key_deserializer: AnyDeserializer | None = None
    value_deserializer: AnyDeserializer | None = None

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            if (value := getattr(self, name)) not in known:
                key = name.replace("_", ".")
                raise ValueError(f"{key} must be {', '.join(known)}, not {value!r}")
        check_least(self, _LEAST)
        check_serialization("key.deserializer", self.key_deserializer, "deserialize")
        check_serialization("value.deserializer", self.value_deserializer, "deserialize")
        self.group()

    @property
    def reset_timestamp(self) -> int | None:
        """The ListOffsets timestamp of ``auto_offset_reset``; None for "none", which raises an
        error."""
        stamps = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}
        return stamps.get(self.auto_offset_reset)

    @property
    def isolation(self) -> int:
        """The number of ``isolation_level`` in requests."""
        return int(self.isolation_level == "read_committed")

    @property
    def is_consumer_protocol(self) -> bool:
        """Whether the group is one of KIP-848's protocol."""
        return self.group_protocol == "consumer"

    def group(self) -> GroupRebalanceConfig | ConsumerMembershipConfig | None:
        """The configuration of the group membership, None without ``group_id``.

        Raises ValueError for invalid time-outs or strategies, or keys of the other protocol.
        """
        self._check_protocol()
        if self.group_id is None:
            return None
        if not self.group_id:
            raise ValueError("group.id is empty")
        if self.is_consumer_protocol:
            return ConsumerMembershipConfig(
                self.group_id,
                self.group_instance_id,
                self.max_poll_interval_ms,
                self.group_remote_assignor,
                self.client_rack or None,
            )
        if not 0 < self.heartbeat_interval_ms < self.session_timeout_ms:
            raise ValueError("heartbeat.interval.ms must be below session.timeout.ms")
        return GroupRebalanceConfig(
            self.group_id,
            resolve_strategy(self.partition_assignment_strategy),
            self.group_instance_id,
            self.session_timeout_ms,
            self.heartbeat_interval_ms,
            self.max_poll_interval_ms,
        )

    def _check_protocol(self) -> None:
        """Raise ValueError for a key that the group protocol does not have."""
        others = _OF_CLASSIC if self.is_consumer_protocol else ("group_remote_assignor",)
        for field in fields(self):
            if field.name in others and getattr(self, field.name) != field.default:
                key = field.name.replace("_", ".")
                protocol = self.group_protocol
                raise ValueError(f"{key} cannot be set when group.protocol={protocol}")
