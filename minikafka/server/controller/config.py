"""The part of a broker's configuration that its controller uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from minikafka.kernel.features import Levels
from minikafka.kernel.inter_broker_protocol import LATEST, InterBrokerProtocol
from minikafka.kernel.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """Kafka's keys in snake case, with the defaults of Kafka 3.9. ``internal_replication_factors``
    maps an internal topic to the replication factor that it gets when enough brokers are alive.
    ``control_plane_listener_name`` is the listener of other brokers to which the controller
    connects, if they have it. ``supported_features`` are those of this broker."""

    broker_id: int
    inter_broker_listener_name: str = "PLAINTEXT"
    control_plane_listener_name: str | None = None
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10
    leader_imbalance_check_interval_seconds: int = 300
    controller_socket_timeout_ms: int = 30_000
    inter_broker_protocol: InterBrokerProtocol = LATEST
    zookeeper_session_timeout_ms: int = 18_000
    internal_replication_factors: Mapping[str, int] = field(default_factory=dict)
    supported_features: Mapping[str, Levels] = field(default_factory=dict)
