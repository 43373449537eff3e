"""The guards around handlers, and what an authorizer of the user's may do wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from minikafka.core.security.acls import AclOperation, AclResourceType
from minikafka.core.security.authorizer import AclAction, Authorizer, Requester
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader
from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from minikafka.protocol.records.builder import build_batch
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.authorization import Authorization
from minikafka.server.broker.apis.eager_start import begun
from minikafka.server.broker.apis.guards import BY_HANDLER, OPEN
from minikafka.server.broker.apis.request import Reply, RequestContext
from minikafka.server.broker.apis.table import ApiTable
from minikafka.server.broker.quotas import Quota
from tests.support.broker.api_rows import services
from tests.support.world.recording_log import RecordingLog

TOPIC_ID = UUID(int=1)


class Answers:
    """An authorizer that gives a fixed answer, or raises."""

    def __init__(self, answer: bool | Exception, count: int | None = None) -> None:
        self._answer = answer
        self._count = count
        self.requesters: list[Requester] = []

    def authorize(self, requester: Requester, actions: Sequence[AclAction]) -> Sequence[bool]:
        self.requesters.append(requester)
        if isinstance(self._answer, Exception):
            raise self._answer
        return [self._answer] * (len(actions) if self._count is None else self._count)

    def authorize_by_type(
        self, requester: Requester, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        return self.authorize(requester, [None])[0]  # type: ignore[list-item]


def authorization(answers: Answers, log: Any = None) -> Authorization:
    return Authorization(cast(Authorizer, answers), log)


def context(api: ApiKey, host: str = "10.0.0.1") -> RequestContext:
    return RequestContext(RequestHeader(api, api.max_version, 1, "c"), "PLAINTEXT", host)


@pytest.mark.mission("SEC-133")
def test_every_api_has_a_guard_or_is_named_as_open() -> None:
    unguarded: dict[Any, set[ApiKey]] = {OPEN: set(), BY_HANDLER: set()}
    for api_key, api in ApiTable().items():
        unguarded.get(api.authorization, set()).add(api_key)
    assert unguarded[OPEN] == {
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
    }
    assert unguarded[BY_HANDLER] == {
        ApiKey.FETCH,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.ENVELOPE,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
    }


@pytest.mark.mission("SEC-133")
@pytest.mark.parametrize("missing", ["authorization", "quota", "changes_state", "task", "handler"])
def test_a_row_without_an_entry_is_an_error_that_names_it(missing: str) -> None:
    """So that no API is served to everybody because a line was forgotten."""
    entries: dict[str, Any] = {
        "key": ApiKey.HEARTBEAT,
        "handler": lambda _: heartbeat,
        "task": False,
        "authorization": OPEN,
        "quota": Quota.REQUESTS,
        "changes_state": True,
    }
    Api(**entries)
    del entries[missing]
    with pytest.raises(TypeError, match=missing):
        Api(**entries)


def guarded(
    api_key: ApiKey, handler: Any, answers: Answers, task: bool = False, log: Any = None
) -> Any:
    """Return the handler behind the guard of the API."""
    named = SimpleNamespace(topic_name={TOPIC_ID: "t"}.get)
    broker = services(authorization=authorization(answers, log), cache=named)
    return ApiTable()[api_key].authorization(broker, handler, task)


def serve(
    answers: Answers, api: ApiKey, request: Any, handler: Any, task: bool = False, log: Any = None
) -> Any:
    """Return the reply of a guarded handler; it must come at once."""
    guard = guarded(api, handler, answers, task, log)
    if task:
        return asyncio.run(guard(context(api), request))
    replies: list[Any] = []
    assert guard(context(api), request, replies.append) is None
    (reply,) = replies
    return reply


def heartbeat(_: RequestContext, __: Any, reply: Reply) -> None:
    reply(HeartbeatResponse())


@pytest.mark.parametrize(
    ("answers", "is_allowed", "is_logged"),
    [
        (Answers(True), True, False),
        (Answers(False), False, False),
        (Answers(RuntimeError("broken")), False, True),
        (Answers(True, count=0), False, True),
        (Answers(True, count=2), False, True),
    ],
)
def test_an_authorizer_that_fails_denies(
    answers: Answers, is_allowed: bool, is_logged: bool
) -> None:
    log = RecordingLog()
    response = serve(answers, ApiKey.HEARTBEAT, HeartbeatRequest("g"), heartbeat, log=log)
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert response.error_code == (ErrorCode.NONE if is_allowed else refused)
    assert [event for _, event, _ in log.events] == ["authorizer_failed"] * is_logged


def test_the_whole_request_is_refused_by_an_error() -> None:
    async def handler(_: RequestContext, __: Any) -> Any:
        return ListPartitionReassignmentsResponse()

    api, request = ApiKey.LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest()
    assert serve(Answers(True), api, request, handler, task=True).error_code == 0
    with pytest.raises(KafkaError) as refused:
        serve(Answers(False), api, request, handler, task=True)
    assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_hosts_are_written_as_java_writes_them() -> None:
    answers = Answers(True)
    asked = authorization(answers)
    for host in ("::1", "::ffff:10.0.0.1", "10.0.0.1"):
        asked.on_cluster(context(ApiKey.HEARTBEAT, host), AclOperation.ALTER)
    assert [r.host for r in answers.requesters] == ["0:0:0:0:0:0:0:1", "10.0.0.1", "10.0.0.1"]
    assert answers.requesters[0].request_name == "Heartbeat"


async def test_a_guard_that_pauses_goes_on_in_a_task() -> None:
    replies: list[Any] = []

    async def work(fails: bool) -> None:
        replies.append("before")
        await asyncio.sleep(0)
        if fails:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        replies.append("after")

    rest = begun(work(False), replies.append)
    assert rest is not None
    assert replies == ["before"]
    await rest
    assert replies == ["before", "after"]
    rest = begun(work(True), replies.append)
    assert rest is not None
    await rest
    assert isinstance(replies[-1], KafkaError)


def produce_request(partitions: int, buffer: memoryview) -> ProduceRequest:
    """A request whose partitions have the same records, which lie in ``buffer``."""
    rows = [PartitionProduceData(number, buffer) for number in range(partitions)]
    topics = [TopicProduceData(topic_id=TOPIC_ID, partition_data=rows)]
    return ProduceRequest(None, 1, 1000, topics)


@pytest.mark.mission("SEC-135")
def test_produce_is_decided_without_a_pause() -> None:
    """The records lie in the receive buffer of the connection, which the next frame overwrites."""
    appended: list[ProduceRequest] = []

    def append(_: RequestContext, request: ProduceRequest, reply: Reply) -> None:
        appended.append(request)
        reply(ProduceResponse())

    request = produce_request(3, memoryview(build_batch([(0, None, b"v", [])])))
    serve(Answers(True), ApiKey.PRODUCE, request, append)
    assert appended == [request]


@pytest.mark.mission("TV2-8")
def test_topics_of_produce_are_authorized_by_name_and_refused_by_id() -> None:
    request = produce_request(1, memoryview(build_batch([(0, None, b"v", [])])))
    request.topic_data.append(TopicProduceData(topic_id=UUID(int=2)))
    left: list[UUID] = []

    def append(_: RequestContext, request: ProduceRequest, reply: Reply) -> None:
        left.extend(topic.topic_id for topic in request.topic_data)
        reply(ProduceResponse())

    (refused,) = serve(Answers(False), ApiKey.PRODUCE, request, append).responses
    assert refused.topic_id == TOPIC_ID
    assert [row.error_code for row in refused.partition_responses] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED
    ]
    assert left == [UUID(int=2)]


@pytest.mark.mission("SEC-135")
async def test_produce_that_is_decided_with_a_pause_keeps_its_records() -> None:
    buffer = bytearray(build_batch([(0, None, b"v", [])]))
    sent = bytes(buffer)
    appended: list[bytes] = []

    def append(_: RequestContext, request: ProduceRequest, reply: Reply) -> None:
        appended.extend(bytes(row.records or b"") for row in request.topic_data[0].partition_data)

    guard = guarded(ApiKey.PRODUCE, append, Answers(True))
    request = produce_request(2_000, memoryview(buffer))
    rest = guard(context(ApiKey.PRODUCE), request, lambda _: None)
    assert rest is not None
    buffer[:] = bytes(len(buffer))
    await rest
    assert appended == [sent] * 2_000


def test_an_error_before_the_pause_of_a_guard_is_raised() -> None:
    async def work() -> None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)

    with pytest.raises(KafkaError):
        begun(work(), lambda _: None)
