"""Topics created on demand, here or by asking the controller."""

import asyncio
from typing import Any, cast

import pytest

from minikafka.broker.admin.auto_topic_creation import AutoTopicCreation, AutoTopicCreationConfig
from minikafka.broker.admin.topics import TopicOutcome
from minikafka.kernel.errors import ErrorCode, KafkaError


class Admin:
    def __init__(self, error: ErrorCode | None) -> None:
        self.error = error
        self.created: list[Any] = []
        self.gate = asyncio.Event()

    async def create_topics(
        self, topics: Any, timeout_ms: int, validate_only: bool, take_permits: Any
    ) -> Any:
        assert (timeout_ms, validate_only) == (0, False)
        self.created += topics
        await self.gate.wait()
        error = KafkaError(self.error) if self.error else None
        return {topic.name: TopicOutcome(error) for topic in topics}


class Controller:
    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.requests: list[Any] = []
        self.gate = asyncio.Event()

    async def request(self, message: Any, version: int) -> Any:
        self.requests.append(message)
        await self.gate.wait()
        if self.failure:
            raise self.failure
        return None


def creation(admin: Admin, controller: Controller, is_controller: bool) -> AutoTopicCreation:
    return AutoTopicCreation(
        AutoTopicCreationConfig(),
        cast(Any, admin),
        lambda: is_controller,
        cast(Any, controller),
    )


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
async def test_auto_creation_responds_after_the_controller_created_the_topic(
    outcome: Any, told: Any
) -> None:
    admin = Admin(outcome)
    answers: list[Any] = []
    auto = creation(admin, Controller(), True)
    async with asyncio.TaskGroup() as tasks:
        auto.start(tasks)
        auto.create(["a", "a b"], answers.append)
        assert answers == []
        await asyncio.sleep(0)
        auto.create(["a"], answers.append)  # under way already
        assert answers == [{"a": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}]
        admin.gate.set()
    assert answers[1:] == [{"a b": ErrorCode.INVALID_TOPIC_EXCEPTION, "a": told}]
    assert [(t.name, t.num_partitions, t.replication_factor) for t in admin.created] == [
        ("a", -1, -1)
    ]


@pytest.mark.parametrize("failure", [None, TimeoutError(), ConnectionError()])
async def test_other_brokers_forward_to_the_controller_and_respond_at_once(failure: Any) -> None:
    controller = Controller(failure)
    answers: list[Any] = []
    auto = creation(Admin(None), controller, False)
    async with asyncio.TaskGroup() as tasks:
        auto.start(tasks)
        auto.create(["a", "b"], answers.append)
        auto.create(["b", "c"], answers.append)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert answers == [{"a": unknown, "b": unknown}, {"b": unknown, "c": unknown}]
        await asyncio.sleep(0)
        assert [[t.name for t in r.topics] for r in controller.requests] == [["a", "b"], ["c"]]
        controller.gate.set()
    async with asyncio.TaskGroup() as tasks:
        auto.start(tasks)
        auto.create(["a"], answers.append)  # no longer under way
    assert len(controller.requests) == 3


async def test_internal_topics_have_their_own_shape() -> None:
    controller = Controller()
    controller.gate.set()
    auto = creation(Admin(None), controller, False)
    async with asyncio.TaskGroup() as tasks:
        auto.start(tasks)
        auto.create(["__consumer_offsets", "__transaction_state"], lambda errors: None)
    offsets, transactions = controller.requests[0].topics
    assert (offsets.num_partitions, offsets.replication_factor) == (50, 3)
    assert {c.name: c.value for c in offsets.configs}["cleanup.policy"] == "compact"
    assert {c.name: c.value for c in transactions.configs}["min.insync.replicas"] == "2"
