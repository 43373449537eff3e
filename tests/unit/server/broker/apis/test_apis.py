"""The route table and the version gate, over loopback sockets."""

import asyncio
import inspect
import io
import json
import struct
from typing import Any

import pytest
import structlog

from minikafka.core.stall_meter import NotedRequest, StallMeter, StallMeterConfig
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.events import configure, event_log
from minikafka.kernel.metrics import Metrics
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.frames import RequestHeader, decode_response, encode_request
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from minikafka.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from minikafka.protocol.messages.produce import ProduceRequest, ProduceResponse
from minikafka.protocol.messages.registry import RESPONSES
from minikafka.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from minikafka.server.broker.apis.api import Api
from minikafka.server.broker.apis.pipeline import Apis
from minikafka.server.broker.apis.request import Reply, RequestContext
from tests.support.broker.api_rows import row, services, table
from tests.support.network.network_lab import Lab, Peer
from tests.support.world.manual_workers import ManualWorkers


def cluster(context: RequestContext, request: DescribeClusterRequest, reply: Reply) -> None:
    reply(DescribeClusterResponse(cluster_id=f"{context.client_id}@{context.listener}"))


class Stage:
    """A server with some routes, in a task group as the node has one."""

    def __init__(self, lab: Lab, *routes: Api) -> None:
        self.lab = lab
        self.workers = ManualWorkers()
        served = routes or [row(ApiKey.DESCRIBE_CLUSTER, cluster)]
        self.metrics = Metrics()
        self.apis = Apis(1, table(*served), services(self.workers), lab.log, metrics=self.metrics)
        self.stop = asyncio.Event()
        self.running: asyncio.Task[None] | None = None

    async def open(self) -> Peer:
        started = asyncio.Event()

        async def run() -> None:
            async with asyncio.TaskGroup() as tasks:
                self.apis.start(tasks)
                started.set()
                await self.stop.wait()
                self.apis.close()

        self.running = asyncio.ensure_future(run())
        await started.wait()
        self.server = await self.lab.serve(self.apis.on_frame)
        return await self.lab.connect(self.server)

    async def close(self) -> None:
        self.stop.set()
        assert self.running is not None
        await self.running


def send(peer: Peer, message: Any, version: int, correlation_id: int = 7) -> None:
    header = RequestHeader(message.SPEC.api_key, version, correlation_id, "me")
    peer.writer.write(encode_request(header, message))


async def receive(peer: Peer, response_class: Any, version: int) -> tuple[int, Any]:
    return decode_response(response_class, version, memoryview(await peer.receive()))


@pytest.fixture
async def lab() -> Any:
    lab = Lab()
    yield lab
    await lab.stop()


@pytest.mark.mission("PRO-2", "PRO-3")
async def test_a_request_finds_its_handler(lab: Lab) -> None:
    stage = Stage(lab)
    peer = await stage.open()
    send(peer, DescribeClusterRequest(), 0, correlation_id=-5)
    correlation_id, response = await receive(peer, DescribeClusterResponse, 0)
    assert correlation_id == -5
    assert response.cluster_id == "me@PLAINTEXT"
    await stage.close()


async def test_api_versions_lists_the_served_apis(lab: Lab) -> None:
    stage = Stage(
        lab,
        row(ApiKey.METADATA, cluster),
        row(ApiKey.FETCH, cluster),
    )
    peer = await stage.open()
    request = ApiVersionsRequest("librdkafka", "2.6.0")
    for version in range(5):
        send(peer, request, version)
        correlation_id, response = await receive(peer, ApiVersionsResponse, version)
        assert correlation_id == 7
        rows = [(row.api_key, row.min_version, row.max_version) for row in response.api_keys]
        assert rows == [
            (key, 0, key.max_version)
            for key in (ApiKey.FETCH, ApiKey.METADATA, ApiKey.API_VERSIONS)
        ]
    await stage.close()


@pytest.mark.parametrize("names", [("", "1"), ("a", ""), ("a b", "1"), ("-a", "1"), ("a", "1\n")])
async def test_software_names_must_be_printable(lab: Lab, names: Any) -> None:
    stage = Stage(lab)
    peer = await stage.open()
    send(peer, ApiVersionsRequest(*names), 3)
    _, response = await receive(peer, ApiVersionsResponse, 3)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    await stage.close()


async def test_unsupported_api_versions_request_gets_a_version_0_response(lab: Lab) -> None:
    stage = Stage(lab)
    peer = await stage.open()
    peer.send(struct.pack(">hhih", 18, 99, 7, 2) + b"me" + b"\x00whatever comes in version 99")
    correlation_id, response = await receive(peer, ApiVersionsResponse, 0)
    assert correlation_id == 7
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(r.api_key, r.min_version, r.max_version) for r in response.api_keys] == [(18, 0, 4)]
    send(peer, ApiVersionsRequest(), 0)  # the client falls back
    assert (await receive(peer, ApiVersionsResponse, 0))[1].error_code == 0
    await stage.close()


BAD_FRAMES = {
    "bad_header": b"\x00",
    "unknown_api": struct.pack(">hhih", 999, 0, 7, -1),
    "unserved_api": struct.pack(">hhih", 3, 0, 7, -1),
    "unsupported_version": struct.pack(">hhih", 60, ApiKey.DESCRIBE_CLUSTER.max_version + 1, 7, -1)
    + b"\0",
    "negative_version": struct.pack(">hhih", 60, -1, 7, -1),
    "bad_request": struct.pack(">hhih", 60, 0, 7, -1) + b"\0",
}
REASONS = {"unserved_api": "unknown_api", "negative_version": "unsupported_version"}


@pytest.mark.parametrize("what", BAD_FRAMES)
async def test_a_request_that_cannot_be_served_closes_only_its_connection(
    lab: Lab, what: str
) -> None:
    stage = Stage(lab)
    other = await stage.open()
    peer = await lab.connect(stage.server)
    send(peer, DescribeClusterRequest(), 0)
    peer.send(BAD_FRAMES[what])
    send(peer, DescribeClusterRequest(), 0)
    await receive(peer, DescribeClusterResponse, 0)
    assert await peer.is_closed()
    assert lab.log.reasons() == [REASONS.get(what, what)]
    send(other, DescribeClusterRequest(), 0)
    await receive(other, DescribeClusterResponse, 0)
    await stage.close()


def _fail(*_: Any) -> Any:
    raise KafkaError(ErrorCode.INVALID_REQUEST, "no, thanks")


failing: Any = _fail  # a handler of either kind


async def failing_task(context: RequestContext, request: Any) -> Any:
    failing()


@pytest.mark.parametrize(
    "route",
    [
        row(ApiKey.DESCRIBE_CLUSTER, failing),
        row(ApiKey.DESCRIBE_CLUSTER, failing_task, task=True),
    ],
)
async def test_a_kafka_error_becomes_the_error_of_the_response(lab: Lab, route: Any) -> None:
    stage = Stage(lab, route)
    peer = await stage.open()
    send(peer, DescribeClusterRequest(), 0)
    _, response = await receive(peer, DescribeClusterResponse, 0)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message == "no, thanks"
    await stage.close()


@pytest.mark.parametrize(
    ("route", "request_", "version"),
    [
        (row(ApiKey.METADATA, failing), MetadataRequest(), 12),
        (row(ApiKey.METADATA, failing_task, task=True), MetadataRequest(), 5),
        (row(ApiKey.PRODUCE, failing), ProduceRequest(acks=0), 9),
        (
            row(ApiKey.FETCH, failing),
            FetchRequest(),
            6,
        ),  # no error code at its top before 7
        (row(ApiKey.FIND_COORDINATOR, failing), FindCoordinatorRequest(), 4),
    ],
)
async def test_a_kafka_error_closes_where_the_response_has_no_place_for_it(
    lab: Lab, route: Any, request_: Any, version: int
) -> None:
    stage = Stage(lab, route)
    peer = await stage.open()
    send(peer, request_, version)
    assert await peer.is_closed()
    assert lab.log.reasons() == ["request_failed"]
    await stage.close()


async def test_an_error_code_is_used_where_the_version_has_it(lab: Lab) -> None:
    routes = (ApiKey.FETCH, ApiKey.FIND_COORDINATOR, ApiKey.METADATA)
    stage = Stage(lab, *(row(key, failing) for key in routes))
    peer = await stage.open()
    send(peer, FetchRequest(), 7)
    send(peer, FindCoordinatorRequest(), 3)
    assert (await receive(peer, FetchResponse, 7))[1].error_code == ErrorCode.INVALID_REQUEST
    _, found = await receive(peer, FindCoordinatorResponse, 3)
    assert (found.error_code, found.error_message) == (ErrorCode.INVALID_REQUEST, "no, thanks")
    send(peer, MetadataRequest(), 13)
    _, metadata = await receive(peer, MetadataResponse, 13)
    assert metadata.error_code == ErrorCode.INVALID_REQUEST
    await stage.close()


def _err(*_: Any) -> Any:
    raise LookupError("a bug")


buggy: Any = _err  # a handler of either kind


async def buggy_task(context: RequestContext, request: Any) -> Any:
    buggy()


@pytest.mark.parametrize(
    "route",
    [
        row(ApiKey.DESCRIBE_CLUSTER, buggy),
        row(ApiKey.DESCRIBE_CLUSTER, buggy_task, task=True),
        row(ApiKey.DESCRIBE_CLUSTER, lambda c, r, reply: reply(object())),
    ],
)
async def test_a_bug_in_a_handler_stops_the_node(lab: Lab, route: Any) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    stage = Stage(lab, route)
    peer = await stage.open()
    send(peer, DescribeClusterRequest(), 0)
    assert stage.running is not None
    with pytest.raises(ExceptionGroup) as failed:
        await stage.running
    assert isinstance(failed.value.exceptions[0], LookupError | TypeError)


@pytest.mark.interpreted  # a compiled one has a type of its own
async def test_a_task_runs_a_coroutine(lab: Lab) -> None:
    """Since Python 3.12 a task refuses the generators of ``types.coroutine``."""
    found: list[object] = []

    async def look(context: RequestContext, request: Any) -> DescribeClusterResponse:
        task = asyncio.current_task()
        assert task is not None
        found.append(task.get_coro())
        return DescribeClusterResponse()

    stage = Stage(lab, row(ApiKey.DESCRIBE_CLUSTER, look, task=True))
    peer = await stage.open()
    send(peer, DescribeClusterRequest(), 0)
    await receive(peer, DescribeClusterResponse, 0)
    assert [inspect.iscoroutine(each) for each in found] == [True]
    await stage.close()


@pytest.mark.parametrize("parked", [False, True])
async def test_unencodable_response_closes_only_its_connection(lab: Lab, parked: bool) -> None:
    """As a name of 40,000 characters that came in by a flexible version."""
    release: list[Reply] = []
    answer = FindCoordinatorResponse(host="h" * 40_000)

    def find(context: RequestContext, request: FindCoordinatorRequest, reply: Reply) -> None:
        if parked:
            release.append(reply)
        else:
            reply(answer)

    routes = [row(ApiKey.FIND_COORDINATOR, find), row(ApiKey.DESCRIBE_CLUSTER, cluster)]
    stage = Stage(lab, *routes)
    peer = await stage.open()
    other = await lab.connect(stage.server)
    send(peer, FindCoordinatorRequest(key="g"), 0)
    if parked:
        await lab.until(lambda: bool(release))
        release.pop()(answer)
    assert await peer.reader.read() == b""
    send(other, DescribeClusterRequest(), 0)
    await receive(other, DescribeClusterResponse, 0)
    await stage.close()


async def test_requests_behind_a_task_wait_until_it_is_done(lab: Lab) -> None:
    """As in Kafka: an admin who creates a topic and then grows it need not wait in between."""
    steps: list[str] = []
    gate = asyncio.Event()

    async def slow(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
        steps.append("begun")
        await gate.wait()
        steps.append("done")
        return MetadataResponse()

    def quick(context: RequestContext, request: DescribeClusterRequest, reply: Reply) -> None:
        steps.append("quick")
        reply(DescribeClusterResponse())

    routes = [row(ApiKey.METADATA, slow, task=True), row(ApiKey.DESCRIBE_CLUSTER, quick)]
    stage = Stage(lab, *routes)
    peer = await stage.open()
    other = await lab.connect(stage.server)
    send(peer, MetadataRequest(), 5)
    send(peer, MetadataRequest(), 5)
    send(peer, DescribeClusterRequest(), 0)
    await lab.until(lambda: steps == ["begun"])
    send(peer, DescribeClusterRequest(), 0)
    send(other, DescribeClusterRequest(), 0)
    await receive(other, DescribeClusterResponse, 0)
    assert steps == ["begun", "quick"]
    gate.set()
    for response in (MetadataResponse, MetadataResponse):
        await receive(peer, response, 5)
    for _ in range(2):
        await receive(peer, DescribeClusterResponse, 0)
    assert steps == ["begun", "quick", "done", "begun", "done", "quick", "quick"]
    await stage.close()


class ParkingLot:
    """Handlers that park, of any API. ``seen``: correlation ids in the order they are served."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.parked: dict[int, Reply] = {}

    def __call__(self, context: RequestContext, request: Any, reply: Reply) -> None:
        self.seen.append(context.header.correlation_id)
        self.parked[context.header.correlation_id] = reply

    async def task(self, context: RequestContext, request: Any) -> Any:
        self.seen.append(context.header.correlation_id)
        return MetadataResponse()

    def release(self, correlation_id: int, response: Any) -> None:
        self.parked.pop(correlation_id)(response)


async def a_few_turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.mission("ORD-1")
@pytest.mark.parametrize("first", [FetchRequest(), ProduceRequest()])
@pytest.mark.parametrize("then", [DescribeClusterRequest(), FetchRequest(), MetadataRequest()])
async def test_requests_behind_a_parked_request_wait_for_its_response(
    lab: Lab, first: Any, then: Any
) -> None:
    lot = ParkingLot()
    stage = Stage(
        lab,
        row(ApiKey.FETCH, lot),
        row(ApiKey.PRODUCE, lot, overlapping=True),
        row(ApiKey.DESCRIBE_CLUSTER, lot),
        row(ApiKey.METADATA, lot.task, task=True),
    )
    peer = await stage.open()
    versions = {FetchRequest: 12, ProduceRequest: 9, DescribeClusterRequest: 0, MetadataRequest: 9}
    send(peer, first, versions[type(first)], 1)
    send(peer, then, versions[type(then)], 2)
    await lab.until(lambda: lot.seen == [1])
    send(peer, then, versions[type(then)], 3)
    await a_few_turns()
    assert lot.seen == [1]
    lot.release(1, RESPONSES[first.SPEC.api_key]())
    await lab.until(lambda: 2 in lot.seen)
    if 2 in lot.parked:
        await a_few_turns()
        assert lot.seen == [1, 2]
        lot.release(2, RESPONSES[then.SPEC.api_key]())
    await lab.until(lambda: lot.seen == [1, 2, 3])
    await stage.close()


@pytest.mark.mission("ORD-1")
async def test_requests_of_an_overlapping_api_are_served_while_others_are_parked(lab: Lab) -> None:
    lot = ParkingLot()
    stage = Stage(
        lab, row(ApiKey.PRODUCE, lot, overlapping=True), row(ApiKey.DESCRIBE_CLUSTER, cluster)
    )
    peer = await stage.open()
    for number in range(3):
        send(peer, ProduceRequest(), 9, number)
    send(peer, DescribeClusterRequest(), 0, 3)
    send(peer, ProduceRequest(), 9, 4)
    await lab.until(lambda: lot.seen == [0, 1, 2])
    for number in (2, 0):
        lot.release(number, ProduceResponse())
    await a_few_turns()
    assert lot.seen == [0, 1, 2]
    lot.release(1, ProduceResponse())
    assert [(await receive(peer, ProduceResponse, 9))[0] for _ in range(3)] == [0, 1, 2]
    assert (await receive(peer, DescribeClusterResponse, 0))[0] == 3
    await lab.until(lambda: lot.seen == [0, 1, 2, 4])
    await stage.close()


@pytest.mark.mission("ORD-1")
@pytest.mark.parametrize("what", [*BAD_FRAMES, "bad_produce", "acks 0 fails"])
async def test_a_connection_is_closed_only_after_the_replies_of_earlier_requests(
    lab: Lab, what: str
) -> None:
    lot = ParkingLot()

    def produce(context: RequestContext, request: ProduceRequest, reply: Reply) -> None:
        if request.acks == 0:
            failing()
        lot(context, request, reply)

    stage = Stage(
        lab,
        row(ApiKey.PRODUCE, produce, overlapping=True),
        row(ApiKey.DESCRIBE_CLUSTER, cluster),
    )
    peer = await stage.open()
    send(peer, ProduceRequest(acks=-1), 9, 1)
    await lab.until(lambda: lot.seen == [1])
    if what == "acks 0 fails":
        send(peer, ProduceRequest(acks=0), 9, 2)
    else:
        bad_produce = struct.pack(">hhih", 0, 9, 7, -1) + b"\0\xff"
        peer.send(bad_produce if what == "bad_produce" else BAD_FRAMES[what])
    send(peer, ProduceRequest(acks=-1), 9, 3)
    await a_few_turns()
    lot.release(1, ProduceResponse())
    assert (await receive(peer, ProduceResponse, 9))[0] == 1
    assert await peer.is_closed()
    assert lot.seen == [1]
    await stage.close()


async def test_tasks_keep_the_order_of_replies_and_survive_their_connection(lab: Lab) -> None:
    gate = asyncio.Event()
    finished = []

    async def slow(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
        await gate.wait()
        finished.append(context.header.correlation_id)
        return MetadataResponse(controller_id=5)

    routes = [row(ApiKey.METADATA, slow, task=True), row(ApiKey.DESCRIBE_CLUSTER, cluster)]
    stage = Stage(lab, *routes)
    peer = await stage.open()
    gone = await lab.connect(stage.server)
    send(gone, MetadataRequest(), 5, correlation_id=1)
    send(peer, MetadataRequest(), 5, correlation_id=2)
    send(peer, DescribeClusterRequest(), 0, correlation_id=3)
    await lab.until(lambda: stage.server.connection_count == 2)
    gone.close()
    await lab.until(lambda: stage.server.connection_count == 1)
    gate.set()
    assert (await receive(peer, MetadataResponse, 5))[0] == 2
    assert (await receive(peer, DescribeClusterResponse, 0))[0] == 3
    assert sorted(finished) == [1, 2]
    await stage.close()


async def test_no_reply_means_no_bytes(lab: Lab) -> None:
    routes = [
        row(ApiKey.PRODUCE, lambda context, request, reply: reply(None)),
        row(ApiKey.DESCRIBE_CLUSTER, cluster),
    ]
    stage = Stage(lab, *routes)
    peer = await stage.open()
    send(peer, ProduceRequest(acks=0), 9, correlation_id=1)
    send(peer, DescribeClusterRequest(), 0, correlation_id=2)
    assert (await receive(peer, DescribeClusterResponse, 0))[0] == 2
    await stage.close()


async def test_replies_in_parts_are_the_same_bytes(lab: Lab) -> None:
    def fetch(context: RequestContext, request: FetchRequest, reply: Reply) -> None:
        reply(FetchResponse(session_id=9))

    stage = Stage(lab, row(ApiKey.FETCH, fetch, in_parts=True))
    peer = await stage.open()
    send(peer, FetchRequest(), 12)
    assert (await receive(peer, FetchResponse, 12))[1].session_id == 9
    await stage.close()


LARGE_REQUEST = MetadataRequest([MetadataRequestTopic(name="t" * 200)] * 1_000)


@pytest.mark.mission("SAFE-31", "ORD-1")
@pytest.mark.parametrize("as_task", [False, True])
async def test_a_large_request_is_decoded_by_a_worker_and_keeps_its_place(
    lab: Lab, as_task: bool
) -> None:
    served: list[tuple[int, int]] = []

    def answer(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
        served.append((context.header.correlation_id, len(request.topics or ())))
        return MetadataResponse()

    async def task(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
        return answer(context, request)

    def immediate(context: RequestContext, request: MetadataRequest, reply: Reply) -> None:
        reply(answer(context, request))

    handler: Any = task if as_task else immediate
    metadata = row(ApiKey.METADATA, handler, task=as_task)
    stage = Stage(lab, metadata, row(ApiKey.DESCRIBE_CLUSTER, cluster))
    peer = await stage.open()
    other = await lab.connect(stage.server)
    stage.workers.hold()
    send(peer, LARGE_REQUEST, 9, 1)
    send(peer, MetadataRequest([MetadataRequestTopic(name="t")]), 9, 2)
    send(peer, DescribeClusterRequest(), 0, 3)
    await lab.until(lambda: stage.workers.calls == 1)
    send(other, DescribeClusterRequest(), 0)
    await receive(other, DescribeClusterResponse, 0)
    assert served == []
    stage.workers.release()
    for correlation_id in (1, 2):
        assert (await receive(peer, MetadataResponse, 9))[0] == correlation_id
    assert (await receive(peer, DescribeClusterResponse, 0))[0] == 3
    assert served == [(1, 1_000), (2, 1)]
    assert stage.workers.calls == 1
    await stage.close()


@pytest.mark.mission("SAFE-31")
async def test_a_large_request_that_cannot_be_decoded_closes_only_its_connection(lab: Lab) -> None:
    stage = Stage(lab, row(ApiKey.METADATA, buggy), row(ApiKey.DESCRIBE_CLUSTER, cluster))
    peer = await stage.open()
    other = await lab.connect(stage.server)
    elements = 500_000
    too_many = struct.pack(">hhihi", 3, 0, 7, -1, elements) + b"\0\0" * elements
    peer.send(too_many)
    send(peer, DescribeClusterRequest(), 0)
    assert await peer.is_closed()
    assert lab.log.reasons() == ["bad_request"]
    assert stage.workers.calls == 1
    send(other, DescribeClusterRequest(), 0)
    await receive(other, DescribeClusterResponse, 0)
    await stage.close()


@pytest.mark.mission("SAFE-31")
async def test_a_large_request_of_a_client_that_has_gone_is_not_served(lab: Lab) -> None:
    lot = ParkingLot()
    stage = Stage(lab, row(ApiKey.METADATA, lot), row(ApiKey.DESCRIBE_CLUSTER, cluster))
    peer = await stage.open()
    other = await lab.connect(stage.server)
    stage.workers.hold()
    send(peer, LARGE_REQUEST, 9)
    await lab.until(lambda: stage.workers.calls == 1)
    peer.close()
    await lab.until(lambda: stage.server.connection_count == 1)
    stage.workers.release()
    send(other, DescribeClusterRequest(), 0)
    await receive(other, DescribeClusterResponse, 0)
    await a_few_turns()
    assert lot.seen == []
    await stage.close()


@pytest.mark.mission("SAFE-31", "ORD-1")
@pytest.mark.parametrize("in_parts", [False, True])
async def test_a_large_response_is_encoded_by_a_worker_and_keeps_its_place(
    lab: Lab, in_parts: bool
) -> None:
    partitions = [PartitionData(partition_index=n, records=b"r") for n in range(5_000)]
    large = FetchResponse(responses=[FetchableTopicResponse("t", partitions=partitions)])

    def fetch(context: RequestContext, request: FetchRequest, reply: Reply) -> None:
        reply(large if context.header.correlation_id == 1 else FetchResponse())

    stage = Stage(
        lab,
        row(ApiKey.FETCH, fetch, in_parts=in_parts),
        row(ApiKey.DESCRIBE_CLUSTER, cluster),
    )
    peer = await stage.open()
    other = await lab.connect(stage.server)
    stage.workers.hold()
    send(peer, FetchRequest(), 11, 1)
    send(peer, FetchRequest(), 11, 2)
    send(peer, DescribeClusterRequest(), 0, 3)
    await lab.until(lambda: stage.workers.calls == 1)
    send(other, DescribeClusterRequest(), 0)
    await receive(other, DescribeClusterResponse, 0)
    stage.workers.release()
    assert await receive(peer, FetchResponse, 11) == (1, large)
    assert (await receive(peer, FetchResponse, 11))[0] == 2
    assert (await receive(peer, DescribeClusterResponse, 0))[0] == 3
    assert stage.workers.calls == 1
    await stage.close()


@pytest.mark.mission("SAFE-31")
async def test_a_large_response_that_does_not_fit_its_version_closes_its_connection(
    lab: Lab,
) -> None:
    def find(context: RequestContext, request: MetadataRequest, reply: Reply) -> None:
        reply(MetadataResponse(topics=[MetadataResponseTopic(name="n" * 40_000)] * 5_000))

    stage = Stage(lab, row(ApiKey.METADATA, find))
    peer = await stage.open()
    send(peer, MetadataRequest(), 5)
    assert await peer.is_closed()
    assert lab.log.reasons() == ["response_too_large"]


class SlowClock:
    """Stands still except where a handler lets time pass."""

    def __init__(self) -> None:
        self.ms = 0


def metered(lab: Lab, clock: SlowClock, *routes: Api) -> tuple[Stage, StallMeter]:
    stage, meter = Stage(lab), StallMeter(StallMeterConfig(100), 0)
    stage.apis = Apis(
        1,
        table(*routes),
        services(stage.workers, lambda: clock.ms * 1_000_000),
        lab.log,
        stalls=meter,
        metrics=stage.metrics,
    )
    return stage, meter


@pytest.mark.mission("SAFE-20")
async def test_a_handler_that_keeps_the_loop_is_noted_with_its_client(lab: Lab) -> None:
    clock = SlowClock()

    def slow(context: RequestContext, request: DescribeClusterRequest, reply: Reply) -> None:
        clock.ms += 100
        cluster(context, request, reply)

    stage, meter = metered(lab, clock, row(ApiKey.DESCRIBE_CLUSTER, slow))
    peer = await stage.open()
    send(peer, DescribeClusterRequest(), 0)
    await receive(peer, DescribeClusterResponse, 0)
    stall = meter.tick(100)
    assert stall is not None
    assert stall.request == NotedRequest("DescribeCluster", "me", "127.0.0.1", 15, 100)
    await stage.close()


@pytest.mark.mission("SAFE-20")
async def test_of_a_task_each_step_counts_by_itself(lab: Lab) -> None:
    clock = SlowClock()
    steps = [99, 99, 150, 99]

    async def in_steps(
        context: RequestContext, request: DescribeClusterRequest
    ) -> DescribeClusterResponse:
        for step_ms in steps:
            clock.ms += step_ms
            await asyncio.sleep(0)
        with pytest.raises(ZeroDivisionError):
            await failing()
        return DescribeClusterResponse(cluster_id="done")

    async def failing() -> None:
        failed = asyncio.get_running_loop().create_future()
        failed.set_exception(ZeroDivisionError())
        await failed

    stage, meter = metered(lab, clock, row(ApiKey.DESCRIBE_CLUSTER, in_steps, task=True))
    peer = await stage.open()
    send(peer, DescribeClusterRequest(), 0)
    _, response = await receive(peer, DescribeClusterResponse, 0)
    assert response.cluster_id == "done"
    stall = meter.tick(50)
    assert stall is not None
    assert stall.request is not None
    assert (stall.request.api, stall.request.ran_ms) == ("DescribeCluster", 150)
    await stage.close()


async def test_short_requests_are_not_noted(lab: Lab) -> None:
    clock = SlowClock()

    def quick(context: RequestContext, request: DescribeClusterRequest, reply: Reply) -> None:
        clock.ms += 99
        cluster(context, request, reply)

    stage, meter = metered(lab, clock, row(ApiKey.DESCRIBE_CLUSTER, quick))
    peer = await stage.open()
    for _ in range(3):
        send(peer, DescribeClusterRequest(), 0)
        await receive(peer, DescribeClusterResponse, 0)
    stall = meter.tick(50 + 297)
    assert stall is not None
    assert stall.request is None
    await stage.close()


@pytest.mark.mission("SAFE-24")
@pytest.mark.parametrize(
    ("api", "request_", "response", "clients"),
    [
        (ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(), DescribeClusterResponse(), True),
        (ApiKey.UPDATE_METADATA, UpdateMetadataRequest(), UpdateMetadataResponse(), False),
    ],
)
async def test_events_of_a_clients_task_name_the_client(
    lab: Lab, api: ApiKey, request_: Any, response: Any, clients: bool
) -> None:
    """Those of a controller's request are the history of the replicas, and are all logged."""
    stream = io.StringIO()
    before = structlog.get_config()

    async def logging(context: RequestContext, request: Any) -> Any:
        event_log("topic-admin").info("topic_created")
        return response

    stage = Stage(lab, row(api, logging, task=True))
    peer = await stage.open()
    try:
        configure("INFO", json=True, stream=stream)
        send(peer, request_, 0)
        await peer.receive()
    finally:
        structlog.configure(**before)
    assert json.loads(stream.getvalue()).get("client") == ("127.0.0.1" if clients else None)
    await stage.close()


@pytest.mark.mission("SAFE-72")
async def test_a_parked_read_that_fails_closes_its_connection_alone(lab: Lab) -> None:
    contained: list[Any] = []

    def fetch(context: RequestContext, request: FetchRequest, reply: Reply) -> None:
        contained.append(context.contain)

    stage = Stage(
        lab,
        row(ApiKey.FETCH, fetch, parks_reads=True),
        row(ApiKey.DESCRIBE_CLUSTER, cluster),
    )
    peer = await stage.open()
    other = await lab.connect(stage.server)
    send(peer, FetchRequest(), 12)
    await lab.until(lambda: len(contained) == 1)
    contained[0](LookupError("read"))
    assert await peer.is_closed()
    assert "request_handler_failed" in [event for _, event, _ in lab.log.events]
    send(other, DescribeClusterRequest(), 0)
    await receive(other, DescribeClusterResponse, 0)
    await stage.close()


async def test_other_parked_requests_cannot_be_contained(lab: Lab) -> None:
    contained: list[Any] = []

    def produce(context: RequestContext, request: ProduceRequest, reply: Reply) -> None:
        contained.append(context.contain)
        reply(None)

    stage = Stage(lab, row(ApiKey.PRODUCE, produce))
    peer = await stage.open()
    send(peer, ProduceRequest(acks=0), 9)
    await lab.until(lambda: contained == [None])
    await stage.close()


@pytest.mark.mission("SAFE-73", "ORD-1")
async def test_requests_behind_one_that_is_served_in_slices_wait_for_its_reply(lab: Lab) -> None:
    """Even those of an overlapping API; other connections do not wait."""
    seen: list[int] = []
    proceed = asyncio.Event()

    def produce(context: RequestContext, request: ProduceRequest, reply: Reply) -> Any:
        seen.append(context.header.correlation_id)

        async def rest() -> None:
            await proceed.wait()
            reply(ProduceResponse())

        if context.header.correlation_id == 0:
            return rest()
        reply(ProduceResponse())
        return None

    stage = Stage(lab, row(ApiKey.PRODUCE, produce, overlapping=True))
    peer = await stage.open()
    other = await lab.connect(stage.server)
    send(peer, ProduceRequest(), 9, 0)
    send(peer, ProduceRequest(), 9, 1)
    await lab.until(lambda: bool(seen))
    await a_few_turns()
    assert seen == [0]
    send(other, ProduceRequest(), 9, 2)
    await receive(other, ProduceResponse, 9)
    assert seen == [0, 2]
    proceed.set()
    assert [(await receive(peer, ProduceResponse, 9))[0] for _ in range(2)] == [0, 1]
    await stage.close()


@pytest.mark.mission("SAFE-73")
@pytest.mark.parametrize("size", [1, 1_000])
async def test_a_slice_of_a_read_that_fails_closes_its_connection_alone(
    lab: Lab, size: int
) -> None:
    """A larger request is decoded by a worker first."""

    def metadata(context: RequestContext, request: MetadataRequest, reply: Reply) -> Any:
        async def rest() -> None:
            await asyncio.sleep(0)
            raise LookupError("slice")

        return rest()

    stage = Stage(
        lab,
        row(ApiKey.METADATA, metadata, changes_state=False),
        row(ApiKey.DESCRIBE_CLUSTER, cluster),
    )
    peer = await stage.open()
    other = await lab.connect(stage.server)
    send(peer, LARGE_REQUEST if size > 1 else MetadataRequest(), 9)
    assert await peer.is_closed()
    assert "request_handler_failed" in [event for _, event, _ in lab.log.events]
    send(other, DescribeClusterRequest(), 0)
    await receive(other, DescribeClusterResponse, 0)
    await stage.close()
