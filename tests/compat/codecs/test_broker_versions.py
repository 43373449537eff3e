"""Our table of API versions agrees with what kafka-python recorded from real brokers."""

from __future__ import annotations

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.registry import REQUESTS, version_range

COLUMNS = {(2, 0): "max_version_2_0", (2, 8): "max_version_2_8", (3, 9): "max_version_3_9"}


def versions_in(release: tuple[int, int]) -> dict[int, tuple[int, int]]:
    highest = {key: getattr(key, COLUMNS[release]) for key in ApiKey}
    return {int(key): (0, version) for key, version in highest.items() if version is not None}


@pytest.mark.parametrize("release", COLUMNS)
def test_the_table_is_that_of_real_brokers(release: tuple[int, int]) -> None:
    assert versions_in(release) == BROKER_API_VERSIONS[release]


@pytest.mark.mission("R-9", "PRO-1")
def test_kafka_2_0_has_43_apis_seven_versions_of_produce_and_nine_of_fetch() -> None:
    assert versions_in((2, 0)) == BROKER_API_VERSIONS[2, 0]
    assert sorted(versions_in((2, 0))) == list(range(43))
    for key, highest in ((ApiKey.PRODUCE, 6), (ApiKey.FETCH, 8)):
        assert versions_in((2, 0))[key] == (0, highest)


@pytest.mark.parametrize("key", sorted(REQUESTS), ids=str)
def test_we_have_a_layout_for_every_version_of_2_0(key: ApiKey) -> None:
    lowest, highest = version_range(key)
    if key.max_version_2_0 is not None:
        assert lowest == 0
        assert highest >= key.max_version_2_0
