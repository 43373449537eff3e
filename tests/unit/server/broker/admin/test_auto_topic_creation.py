"""Topics created on demand, here or by the controller."""

import asyncio
import weakref
from typing import Any, cast

import pytest

from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from minikafka.server.broker.admin.auto_topic_creation import (
    MAX_WAIT_MS,
    AutoTopicCreation,
    AutoTopicCreationConfig,
)
from minikafka.server.broker.admin.topics import TopicOutcome
from tests.support.world.manual_clock import ManualClock

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NO_LEADER = ErrorCode.LEADER_NOT_AVAILABLE
INVALID = ErrorCode.INVALID_TOPIC_EXCEPTION


class Admin:
    """Creates topics here once ``gate`` is open, with ``error``."""

    def __init__(self, error: ErrorCode = ErrorCode.REQUEST_TIMED_OUT) -> None:
        self.error = error
        self.created: list[Any] = []
        self.gate = asyncio.Event()

    async def create_topics(
        self, topics: Any, timeout_ms: int, validate_only: bool, take_permits: Any
    ) -> Any:
        assert (timeout_ms, validate_only) == (0, False)
        self.created.append(topics)
        await self.gate.wait()
        return {topic.name: TopicOutcome(KafkaError(self.error)) for topic in topics}


class Controller:
    """Responds to CreateTopics once ``gate`` is open, with ``error`` or by raising ``failure``."""

    def __init__(self, error: ErrorCode = ErrorCode.REQUEST_TIMED_OUT) -> None:
        self.error = error
        self.failure: Exception | None = None
        self.created: list[Any] = []
        self.gate = asyncio.Event()

    async def request(self, message: Any, version: int) -> CreateTopicsResponse:
        assert message.timeout_ms == 0
        self.created.append(message.topics)
        await self.gate.wait()
        if self.failure:
            raise self.failure
        results = [CreatableTopicResult(name=t.name, error_code=self.error) for t in message.topics]
        return CreateTopicsResponse(topics=results)


def creation(
    place: Admin | Controller, clock: ManualClock | None = None, live_brokers: int | None = None
) -> AutoTopicCreation:
    return AutoTopicCreation(
        AutoTopicCreationConfig(),
        clock or ManualClock(),
        cast(Any, place),
        lambda: isinstance(place, Admin),
        cast(Any, place),
        None if live_brokers is None else lambda: live_brokers,
    )


def names(created: list[Any]) -> list[list[str]]:
    return [[topic.name for topic in topics] for topics in created]


PLACES = pytest.mark.parametrize("place_type", [Admin, Controller])


@PLACES
@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, NO_LEADER),
        (ErrorCode.TOPIC_ALREADY_EXISTS, NO_LEADER),
        (ErrorCode.NOT_CONTROLLER, UNKNOWN),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, INVALID),
        (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_REPLICATION_FACTOR),
        (ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.THROTTLING_QUOTA_EXCEEDED),
    ],
)
async def test_the_response_waits_for_the_outcome_on_every_broker(
    place_type: Any, outcome: ErrorCode, expected: ErrorCode
) -> None:
    place, clock = place_type(outcome), ManualClock()
    responses: list[Any] = []
    auto = creation(place, clock)
    async with asyncio.TaskGroup() as tasks:
        auto.start(tasks)
        auto.create(["a", "a b"], responses.append)
        await asyncio.sleep(0)
        auto.create(["b", "a"], responses.append)  # "a" is being created already
        await asyncio.sleep(0)
        assert responses == []
        place.gate.set()
    assert responses == [{"a": expected, "a b": INVALID}, {"b": expected, "a": expected}]
    assert names(place.created) == [["a"], ["b"]]
    clock.advance(MAX_WAIT_MS)
    assert len(responses) == 2


async def test_an_illegal_name_is_refused_at_once() -> None:
    responses: list[Any] = []
    async with asyncio.TaskGroup() as tasks:
        auto = creation(Controller())
        auto.start(tasks)
        auto.create(["a b"], responses.append)
        assert responses == [{"a b": INVALID}]


@PLACES
async def test_responses_wait_for_a_bounded_time_and_once_for_each_creation(
    place_type: Any,
) -> None:
    place, clock = place_type(ErrorCode.POLICY_VIOLATION), ManualClock()
    responses: list[Any] = []
    auto = creation(place, clock)
    async with asyncio.TaskGroup() as tasks:
        auto.start(tasks)
        auto.create(["a"], responses.append)
        await asyncio.sleep(0)
        clock.advance(MAX_WAIT_MS)
        assert responses == [{"a": UNKNOWN}]
        auto.create(["a"], responses.append)  # the connection is not held back again
        assert responses[1:] == [{"a": UNKNOWN}]
        auto.create(["b", "a"], responses.append)
        place.gate.set()
        await asyncio.sleep(0.01)
        auto.create(["a"], responses.append)
    assert responses[2:] == [
        {"b": ErrorCode.POLICY_VIOLATION, "a": UNKNOWN},
        {"a": ErrorCode.POLICY_VIOLATION},
    ]
    assert names(place.created) == [["a"], ["b"], ["a"]]


async def test_a_request_is_not_kept_after_its_response() -> None:
    """Without a controller a creation lasts for a minute, in which clients retry."""

    class Request:
        def respond(self, errors: object) -> None: ...

    controller, clock = Controller(), ManualClock()
    auto = creation(controller, clock)
    async with asyncio.TaskGroup() as tasks:
        auto.start(tasks)
        request = Request()
        kept = weakref.ref(request)
        auto.create(["a"], request.respond)
        del request
        assert kept() is not None
        clock.advance(MAX_WAIT_MS)
        assert kept() is None
        controller.gate.set()


@pytest.mark.parametrize("failure", [TimeoutError(), ConnectionError()])
async def test_a_controller_that_does_not_respond_leaves_the_topic_unknown(
    failure: Exception,
) -> None:
    controller = Controller()
    controller.failure = failure
    controller.gate.set()
    responses: list[Any] = []
    async with asyncio.TaskGroup() as tasks:
        auto = creation(controller)
        auto.start(tasks)
        auto.create(["a"], responses.append)
    assert responses == [{"a": UNKNOWN}]


@PLACES
async def test_a_refused_name_is_tried_again(place_type: Any) -> None:
    place = place_type(ErrorCode.POLICY_VIOLATION)
    place.gate.set()
    responses: list[Any] = []
    auto = creation(place)
    for place.error in (ErrorCode.POLICY_VIOLATION, ErrorCode.NONE):
        async with asyncio.TaskGroup() as tasks:
            auto.start(tasks)
            auto.create(["a"], responses.append)
    assert responses == [{"a": ErrorCode.POLICY_VIOLATION}, {"a": NO_LEADER}]


async def test_topics_have_the_defaults_of_the_controller_and_internal_ones_their_own_shape() -> (
    None
):
    controller = Controller()
    controller.gate.set()
    auto = creation(controller)
    async with asyncio.TaskGroup() as tasks:
        auto.start(tasks)
        auto.begin(["a", "__consumer_offsets", "__transaction_state"])
    plain, offsets, transactions = controller.created[0]
    assert (plain.num_partitions, plain.replication_factor, plain.configs) == (-1, -1, [])
    assert (offsets.num_partitions, offsets.replication_factor) == (50, 3)
    assert {c.name: c.value for c in offsets.configs}["cleanup.policy"] == "compact"
    assert {c.name: c.value for c in transactions.configs}["min.insync.replicas"] == "2"
