"""The finalized features that ApiVersions shows, as ``/feature`` changes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from minikafka.kernel.config import ConfigError
from minikafka.kernel.features import Levels
from minikafka.kernel.inter_broker_protocol import LATEST
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.codec import decode, encode
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from minikafka.server.broker.apis.api_versions import ApiVersionsHandler, FeatureState
from minikafka.server.broker.apis.request import RequestContext
from minikafka.server.broker.metadata.finalized_features import FinalizedFeatures
from minikafka.server.zookeeper.store import ZkStore
from tests.support.world.manual_clock import ManualClock
from tests.support.zookeeper.direct import DirectZookeeper

ENABLED = b'{"features":{},"version":2,"status":1}'


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.mission("MIX-5")
async def test_the_epoch_is_the_version_of_the_znode() -> None:
    zookeeper = DirectZookeeper()
    store = ZkStore(zookeeper.new_session())
    features = FinalizedFeatures(lambda: store, ManualClock(0), 1, {})
    handler = ApiVersionsHandler([], lambda: FeatureState({}, features.levels, features.epoch))

    async def shown() -> tuple[int, list[FinalizedFeatureKey]]:
        await settle()
        responses: list[ApiVersionsResponse] = []
        context = RequestContext(
            RequestHeader(ApiKey.API_VERSIONS, 3, 1, "c"), "PLAINTEXT", "127.0.0.1"
        )
        handler(context, ApiVersionsRequest("c", "1"), cast(Any, responses.append))
        (response,) = responses
        return response.finalized_features_epoch, response.finalized_features

    async with asyncio.TaskGroup() as tasks:
        features.start(tasks)
        assert await shown() == (-1, [])
        await store.set_feature_znode(LATEST, {})
        assert await shown() == (0, [])
        zookeeper.set("/feature", ENABLED.replace(b"{}", b'{"a":{"max_version_level":3}}'))
        assert await shown() == (1, [FinalizedFeatureKey("a", 3, 3)])
        zookeeper.set("/feature", ENABLED.replace(b'"status":1', b'"status":0'))
        assert await shown() == (-1, [])
        zookeeper.set("/feature", b"?")
        assert await shown() == (-1, [])
        zookeeper.set("/feature", ENABLED)
        assert await shown() == (4, [])
        # The watch ends with its session.
        zookeeper.expire(cast(Any, store.session))
        store = ZkStore(zookeeper.new_session())
        zookeeper.set("/feature", ENABLED)
        await features.on_new_session(store)
        assert await shown() == (5, [])
        await features.stop()


async def test_a_level_is_in_force_if_this_broker_supports_it() -> None:
    zookeeper = DirectZookeeper()
    store = ZkStore(zookeeper.new_session())
    supported = {"a": Levels(0, 2), "b": Levels(2, 3), "off": Levels(0, 1)}
    features = FinalizedFeatures(lambda: store, ManualClock(0), 1, supported)

    async with asyncio.TaskGroup() as tasks:
        features.start(tasks)
        await settle()
        assert features.level("a") == 0
        await store.set_feature_znode(LATEST, {"a": 2, "b": 1, "unknown": 1})
        await settle()
        assert [features.level(name) for name in ("a", "b", "off", "unknown")] == [2, 0, 0, 0]
        zookeeper.set("/feature", ENABLED)
        await settle()
        assert features.level("a") == 0
        await features.stop()


@pytest.mark.parametrize(
    ("znode", "unsupported"),
    [
        (None, ""),
        (b"?", ""),
        (ENABLED, ""),
        (ENABLED.replace(b"{}", b'{"a":{"max_version_level":2}}'), ""),
        (ENABLED.replace(b"{}", b'{"a":{"max_version_level":3}}'), "a=3"),
        (ENABLED.replace(b"{}", b'{"b":{"max_version_level":1}}'), "b=1"),
        (b'{"features":{"b":{"max_version_level":1}},"version":2,"status":0}', ""),
    ],
)
async def test_a_broker_ends_beside_a_level_that_it_does_not_support(
    znode: bytes | None, unsupported: str
) -> None:
    zookeeper = DirectZookeeper()
    store = ZkStore(zookeeper.new_session())
    if znode is not None:
        await store.set_feature_znode(LATEST, {})
        zookeeper.set("/feature", znode)
    features = FinalizedFeatures(lambda: store, ManualClock(0), 1, {"a": Levels(0, 2)})
    if not unsupported:
        await features.check()
        return
    with pytest.raises(ConfigError, match=f"finalized: {unsupported};"):
        await features.check()


@pytest.mark.parametrize("version", range(5))
def test_a_feature_that_may_be_off_is_listed_for_clients_that_can_read_it(version: int) -> None:
    supported = {"group.version": Levels(0, 1), "other": Levels(1, 2)}
    state = FeatureState(supported, {"group.version": 1, "off": 0}, 7)
    response = ApiVersionsHandler([], lambda: state).response(version)
    read = decode(ApiVersionsResponse, version, encode(response, version))
    if version < 3:
        assert read == ApiVersionsResponse()
        return
    off = [SupportedFeatureKey("group.version", 0, 1)] if version == 4 else []
    assert read.supported_features == [*off, SupportedFeatureKey("other", 1, 2)]
    assert read.finalized_features == [FinalizedFeatureKey("group.version", 1, 1)]
    assert read.finalized_features_epoch == 7
