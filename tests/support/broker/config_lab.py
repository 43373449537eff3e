"""The configuration handlers of one broker, on a ZooKeeper in a dict."""

from __future__ import annotations

from typing import Any

from minikafka.core.config_resources import AlterOperation
from minikafka.kernel.errors import ErrorCode
from minikafka.kernel.settings import BROKER_CONFIG, TOPIC_CONFIG
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from minikafka.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from minikafka.server.broker.admin.broker_loggers import BrokerLoggers
from minikafka.server.broker.admin.config_entries import ConfigEntries
from minikafka.server.broker.admin.configs import ConfigAdminManager
from minikafka.server.broker.admin.dynamic_config import DynamicBrokerConfig, Passwords
from minikafka.server.broker.apis.cluster.alter_configs import AlterConfigsHandler
from minikafka.server.broker.apis.cluster.describe_configs import DescribeConfigsHandler
from minikafka.server.broker.apis.cluster.incremental_alter_configs import (
    IncrementalAlterConfigsHandler,
)
from minikafka.server.broker.apis.request import RequestContext
from tests.support.broker.cluster_metadata import cache_with, partition_state, update

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = AlterOperation


class Lab:
    """Broker 1 on a ZooKeeper in a dict, with topic t."""

    def __init__(self, store: Any, passwords: Passwords | None = None) -> None:
        self.store = store
        self.dynamic = DynamicBrokerConfig(
            BROKER_CONFIG.parse({"zookeeper.connect": "z:1", "log.roll.hours": "3"}),
            passwords=passwords,
        )
        cache = cache_with(update({"t": [partition_state(0, 1)]}))
        entries = ConfigEntries(self.dynamic, BROKER_CONFIG, TOPIC_CONFIG)
        loggers = BrokerLoggers(1)
        admin = ConfigAdminManager(
            1, cache, lambda: self.store, self.dynamic, entries.check_topic, loggers
        )
        self.alter_handler = AlterConfigsHandler(admin)
        self.increment_handler = IncrementalAlterConfigsHandler(admin)
        self.describe_handler = DescribeConfigsHandler(
            1, cache, entries, lambda: self.store, loggers
        )

    async def alter(self, *resources: Any, version: int = 2, **fields: Any) -> Any:
        """Send AlterConfigs for resources (type, name, {key: value}); return the results."""
        request = AlterConfigsRequest(
            [
                AlterConfigsResource(kind, name, [AlterableConfig(*c) for c in configs.items()])
                for kind, name, configs in resources
            ],
            **fields,
        )
        request = decode(AlterConfigsRequest, version, encode(request, version))
        context = RequestContext(RequestHeader(33, version, 1), "PLAINTEXT", "h")
        response = await self.alter_handler(context, request)
        return decode(AlterConfigsResponse, version, encode(response, version)).responses

    async def increment(self, *resources: Any, version: int = 1, **fields: Any) -> Any:
        """Send IncrementalAlterConfigs for resources (type, name, [(key, operation, value)]);
        return the results."""
        request = IncrementalAlterConfigsRequest(
            [
                IncrementalAlterConfigsResource(
                    kind, name, [IncrementalAlterableConfig(*c) for c in changes]
                )
                for kind, name, changes in resources
            ],
            **fields,
        )
        request = decode(IncrementalAlterConfigsRequest, version, encode(request, version))
        context = RequestContext(RequestHeader(44, version, 1), "PLAINTEXT", "h")
        response = await self.increment_handler(context, request)
        decoded = decode(IncrementalAlterConfigsResponse, version, encode(response, version))
        return decoded.responses

    async def describe(self, kind: int, name: str) -> dict[str, Any]:
        request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)], True, True)
        context = RequestContext(RequestHeader(32, 4, 1), "PLAINTEXT", "h")
        (result,) = (await self.describe_handler(context, request)).results
        assert result.error_code == 0
        return {entry.name: entry for entry in result.configs}

    async def written(self, path: str) -> Any:
        found = await self.store.session.get(path, None)
        return found[0]


def fate(results: Any) -> list[tuple[ErrorCode, str | None]]:
    return [(ErrorCode(a.error_code), a.error_message) for a in results]
