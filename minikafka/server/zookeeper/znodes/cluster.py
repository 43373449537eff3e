"""Znodes of the whole cluster: controller, epoch, brokers, cluster id, producer ids, features."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar

from minikafka.core.topic_names import MAX_PORT
from minikafka.kernel.cluster import NO_EPOCH, Broker, Endpoint
from minikafka.kernel.features import Levels
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.server.zookeeper import paths
from minikafka.server.zookeeper.requests import MalformedZnode
from minikafka.server.zookeeper.znodes.json_form import (
    INT_BITS,
    MAX_EPOCH,
    Fields,
    decimal,
    decode_json_object,
    encode_json,
    properties_order,
)

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ENDPOINT = re.compile(r"([^:/]+)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


@dataclass(frozen=True, slots=True)
class ControllerZnode:
    """``/controller``, ephemeral: the controller's id. Version 2 of its JSON (Kafka 3.4)."""

    path: ClassVar[str] = paths.CONTROLLER

    broker_id: int
    timestamp_ms: int
    kraft_controller_epoch: int = -1

    def encode(self) -> bytes:
        return encode_json(
            {
                "version": 2,
                "brokerid": self.broker_id,
                "timestamp": str(self.timestamp_ms),
                "kraftControllerEpoch": self.kraft_controller_epoch,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> ControllerZnode:
        """Read versions 1 and 2; as in Kafka only ``brokerid`` is mandatory. Raises
        ``MalformedZnode``."""
        values = decode_json_object(cls.path, data)
        fields = Fields(cls.path, data, values)
        written = values.get("timestamp")
        timestamp_ms = decimal(str(written)) if isinstance(written, str | int) else None
        return cls(
            fields.integer("brokerid"),
            timestamp_ms or 0,
            fields.integer("kraftControllerEpoch", -1),
        )


@dataclass(frozen=True, slots=True)
class ControllerEpochZnode:
    """``/controller_epoch``: the number of elections so far, as a plain decimal number."""

    path: ClassVar[str] = paths.CONTROLLER_EPOCH

    epoch: int

    def encode(self) -> bytes:
        return str(self.epoch).encode()

    @classmethod
    def decode(cls, data: bytes) -> ControllerEpochZnode:
        """Raises ``MalformedZnode``."""
        epoch = decimal(data.decode("ascii", "replace"), INT_BITS)
        if epoch is None or not 0 <= epoch <= MAX_EPOCH:
            raise MalformedZnode(cls.path, data, "not an epoch")
        return cls(epoch)


@dataclass(frozen=True, slots=True)
class ClusterIdZnode:
    """``/cluster/id``."""

    path: ClassVar[str] = paths.CLUSTER_ID

    cluster_id: str

    def encode(self) -> bytes:
        return encode_json({"version": "1", "id": self.cluster_id})

    @classmethod
    def decode(cls, data: bytes) -> ClusterIdZnode:
        """Raises ``MalformedZnode``."""
        return cls(Fields(cls.path, data).text("id"))


FIRST_WITH_FEATURES = 5


@dataclass(frozen=True, slots=True)
class BrokerZnode:
    """``/brokers/ids/<id>``, ephemeral: a live broker. Versions 1 to 5 are read, 4 (without
    features) and 5 (inter-broker protocol 2.7 and later) are written: ``version``.

    ``features`` are those that the broker supports. Level 0, off, is written as 1: Kafka before 3.8
    cannot read the znode of a broker with a lowest level of 0."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    timestamp_ms: int
    rack: str | None = None
    jmx_port: int = -1
    features: Mapping[str, Levels] = field(default_factory=dict)
    version: int = 5

    @property
    def path(self) -> str:
        return paths.broker_id(self.broker_id)

    def encode(self) -> bytes:
        """``host`` and ``port`` are those of the first plaintext endpoint, for old readers."""
        plain = next((e for e in self.endpoints if e.security_protocol == "PLAINTEXT"), None)
        rack = {} if self.rack is None else {"rack": self.rack}
        features = {
            name: {
                "min_version": max(1, self.features[name].lowest),
                "max_version": self.features[name].highest,
            }
            for name in properties_order(self.features)
        }
        return encode_json(
            {
                **({"features": features} if self.version >= FIRST_WITH_FEATURES else {}),
                "listener_security_protocol_map": {
                    e.listener: e.security_protocol for e in self.endpoints
                },
                "endpoints": [_connection_string(e) for e in self.endpoints],
                **rack,
                "jmx_port": self.jmx_port,
                "port": plain.port if plain else -1,
                "host": plain.host if plain else None,
                "version": self.version,
                "timestamp": str(self.timestamp_ms),
            }
        )

    @classmethod
    def decode(cls, broker_id: int, data: bytes) -> BrokerZnode:
        """Raises ``MalformedZnode``."""
        fields = Fields(paths.broker_id(broker_id), data)
        version = fields.integer("version")
        if version < 1:
            raise fields.broken(f"version {version} is not supported")
        if version == 1:
            endpoints: tuple[Endpoint, ...] = (
                Endpoint(fields.text("host"), fields.integer("port")),
            )
        else:
            endpoints = _parse_endpoints(fields)
        features = fields.object("features")
        return cls(
            broker_id,
            endpoints,
            fields.integer_text("timestamp") if "timestamp" in fields else 0,
            fields.text("rack") if "rack" in fields else None,
            fields.integer("jmx_port", -1),
            {name: _levels(features.object(name)) for name in features.names()},
        )

    def broker(self, epoch: int = NO_EPOCH) -> Broker:
        """``epoch`` is the czxid of the znode."""
        return Broker(self.broker_id, self.endpoints, self.rack, epoch)


def _levels(fields: Fields) -> Levels:
    return Levels(fields.integer("min_version"), fields.integer("max_version"))


def _connection_string(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


def _parse_endpoints(fields: Fields) -> tuple[Endpoint, ...]:
    named = "listener_security_protocol_map" in fields
    protocols = fields.text_map("listener_security_protocol_map") if named else None
    endpoints = []
    for text in fields.texts("endpoints"):
        match = _ENDPOINT.fullmatch(text)
        port = decimal(match[3], INT_BITS) if match else None
        if not match or port is None or port > MAX_PORT:
            raise fields.broken(f"{text[:100]!r} is not an endpoint")
        listener = match[1].upper()
        protocol = listener if protocols is None else protocols.get(listener)
        if protocol not in SECURITY_PROTOCOLS:
            raise fields.broken(f"no security protocol for listener {listener}")
        endpoints.append(Endpoint(match[2], port, listener, protocol))
    return tuple(endpoints)


@dataclass(frozen=True, slots=True)
class ProducerIdBlockZnode:
    """``/latest_producer_id_block``: the block of producer ids that was allocated last."""

    path: ClassVar[str] = paths.PRODUCER_ID_BLOCK

    broker_id: int
    first_id: int
    last_id: int  # the last one of the block, inclusive

    def encode(self) -> bytes:
        return encode_json(
            {
                "version": 1,
                "broker": self.broker_id,
                "block_start": str(self.first_id),
                "block_end": str(self.last_id),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> ProducerIdBlockZnode:
        """Raises ``MalformedZnode``."""
        fields = Fields(cls.path, data)
        first, last = fields.integer_text("block_start"), fields.integer_text("block_end")
        if not 0 <= first <= last:
            raise fields.broken("not a block of producer ids")
        return cls(fields.integer("broker"), first, last)


@dataclass(frozen=True, slots=True)
class FeatureZnode:
    """``/feature``: the finalized features (KIP-584). Version 2, from inter-broker protocol 3.3 on,
    has no lowest levels any more."""

    path: ClassVar[str] = paths.FEATURE

    enabled: bool = True
    features: dict[str, int] = field(default_factory=dict)
    version: int = 2

    def encode(self) -> bytes:
        names = ("max_version_level", "min_version_level")[: 1 if self.version > 1 else 2]
        levels = {name: dict.fromkeys(names, level) for name, level in self.features.items()}
        return encode_json(
            {"features": levels, "version": self.version, "status": int(self.enabled)}
        )

    @classmethod
    def decode(cls, data: bytes) -> FeatureZnode:
        """Versions 1 and 2. Raises ``MalformedZnode``."""
        fields = Fields(cls.path, data)
        if fields.integer("version") not in (1, 2):
            raise fields.broken("unsupported version")
        status = fields.integer("status")
        if status not in (0, 1):
            raise fields.broken("unknown status")
        levels = fields.object("features")
        return cls(
            status == 1,
            {name: levels.object(name).integer("max_version_level") for name in levels.names()},
            fields.integer("version"),
        )
