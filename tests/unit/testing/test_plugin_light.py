"""The pytest plugin costs a test run nothing until it is used; keys of minikafka.aio."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, cast

import pytest

from minikafka import aio, testing
from minikafka.core.client.assignors.catalogue import DEFAULT_STRATEGY
from minikafka.core.client.consumer.consumer_membership import ConsumerMembershipConfig
from minikafka.core.client.consumer.membership import GroupRebalanceConfig


def test_the_plugin_imports_nothing_of_the_rest() -> None:
    program = (
        "import sys, minikafka.testing.plugin; "
        "print([name for name in sys.modules if name.startswith(('minikafka', 'kazoo', 'uvloop'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    names = ["minikafka", "minikafka.testing", "minikafka.testing.plugin"]
    assert done.stdout.strip() == repr(names), done.stderr


@pytest.mark.mission("IN-48")
def test_the_package_imports_nothing_until_a_name_is_used() -> None:
    program = (
        "import sys, minikafka.testing; "
        "print([name for name in sys.modules if name.startswith(('minikafka', 'structlog'))]); "
        "from minikafka.testing import NotInThisPlace; "
        "print([name for name in sys.modules if name.startswith(('minikafka', 'structlog'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    names = ["minikafka", "minikafka.testing"]
    lines = [repr(names), repr([*names, "minikafka.testing.cluster"])]
    assert done.stdout.splitlines() == lines, done.stderr


@pytest.mark.mission("IN-48")
def test_every_name_of_the_package_is_found() -> None:
    assert sorted(testing.__all__) == testing.__all__
    assert sorted(name for names in testing._MODULES.values() for name in names) == testing.__all__
    for name in testing.__all__:
        assert getattr(testing, name).__name__ == name
        assert name in dir(testing)
    with pytest.raises(AttributeError, match="has no attribute 'Nope'"):
        _ = testing.Nope


def test_applications_need_no_zookeeper_library() -> None:
    program = "import sys, minikafka.aio; print('kazoo' in sys.modules, 'uvloop' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False False", done.stderr


@pytest.mark.mission("CFG-1", "CFG-5")
def test_keys_find_their_configuration() -> None:
    producer = aio.Producer("h:1", linger_ms=3, client_id="me")
    assert producer._config.linger_ms == 3
    assert producer.session.config.client_id == "me"
    assert producer.session.config.bootstrap_servers == "h:1"
    assert producer._config.max_block_ms == 60_000
    assert producer.session.config.request_timeout_ms == 30_000
    consumer = aio.Consumer(group_id="g", max_poll_records=5)
    assert consumer._config.partition_assignment_strategy == DEFAULT_STRATEGY
    assert consumer._config.fetch_min_bytes == 1
    assert consumer._config.isolation_level == "read_uncommitted"
    for make in (aio.Producer, aio.Consumer, aio.Admin):
        with pytest.raises(TypeError, match="nope"):
            make(nope=1)
    with pytest.raises(TypeError, match="list"):
        aio.Consumer(topics=cast(Any, "t"))


@pytest.mark.mission("CFG-4", "HB-1")
def test_group_timeouts_are_checked() -> None:
    group = aio.Consumer(group_id="g")._config.group()
    assert isinstance(group, GroupRebalanceConfig)
    assert (group.session_timeout_ms, group.heartbeat_interval_ms) == (45_000, 3_000)
    old = aio.Consumer(group_id="g", session_timeout_ms=10_000)._config.group()
    assert isinstance(old, GroupRebalanceConfig)
    assert old.session_timeout_ms == 10_000  # the default before Kafka 3.0
    with pytest.raises(ValueError, match=r"heartbeat\.interval\.ms"):
        aio.Consumer(group_id="g", heartbeat_interval_ms=50_000)
    with pytest.raises(ValueError, match=r"group\.id"):
        aio.Consumer(group_id="")


def test_keys_of_the_other_group_protocol_are_refused() -> None:
    """As by Kafka's ``ConsumerConfig``."""
    new = aio.Consumer(group_id="g", group_protocol="consumer", group_remote_assignor="range")
    expected = ConsumerMembershipConfig("g", group_remote_assignor="range")
    assert new._config.group() == expected
    others: dict[str, Any] = {
        "session_timeout_ms": 10_000,
        "heartbeat_interval_ms": 1_000,
        "partition_assignment_strategy": ("range",),
    }
    for key, value in others.items():
        with pytest.raises(ValueError, match=rf"{key.replace('_', '.')} cannot be set"):
            aio.Consumer(group_id="g", group_protocol="consumer", **{key: value})
    with pytest.raises(ValueError, match=r"group\.remote\.assignor cannot be set"):
        aio.Consumer(group_id="g", group_remote_assignor="range")
    with pytest.raises(ValueError, match=r"group\.protocol must be"):
        aio.Consumer(group_id="g", group_protocol="share")
    classic = aio.Consumer(group_id="g")
    with pytest.raises(ValueError, match="group_protocol"):
        classic.subscribe(pattern=aio.SubscriptionPattern("a.*"))
    with pytest.raises(ValueError, match="empty"):
        aio.SubscriptionPattern("")
