"""What a Spark process believes of a cluster: brokers that start, hang, or know only a part."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from minikafka.kernel.cluster import ZERO_UUID, TopicPartition
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.spark import cluster as module
from minikafka.spark.client_options import ClientOptions, client_options
from minikafka.spark.cluster import Cluster, kept_cluster
from minikafka.spark.options import TopicSelection

pytestmark = pytest.mark.mission("SPK-1", "SPK-2")

BROKERS = {1: "a", 2: "b"}
OLD, NEW = UUID(int=1), UUID(int=2)
END = 7


class Brokers:
    """Brokers 1 and 2 at a:1 and b:1. ``views``: partitions by topic, as each host tells them, and
    None of one that has not heard from its controller. ``asked``: hosts, in order."""

    def __init__(self) -> None:
        self.views: dict[str, dict[str, int] | None] = {"a": {"t": 2}, "b": {"t": 2}}
        self.topic_ids: dict[str, UUID] = {}  # as each host gives them
        self.leader = 1
        self.dead: set[str] = set()
        self.leader_epoch = 4
        self.asked: list[str] = []
        self.listed: list[ListOffsetsRequest] = []
        self.passed_ms = 0.0
        self.hang_ms = 0

    def answer(self, host: str, message: Any) -> Any:
        self.asked.append(host)
        if host in self.dead:
            self.passed_ms += self.hang_ms
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{host} does not answer")
        if isinstance(message, ListOffsetsRequest):
            self.listed.append(message)
            return ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(
                        name=topic.name,
                        partitions=[
                            ListOffsetsPartitionResponse(
                                partition_index=row.partition_index, offset=END
                            )
                            for row in topic.partitions
                        ],
                    )
                    for topic in message.topics
                ]
            )
        assert isinstance(message, MetadataRequest)
        response = self._metadata(self.views[host], message.topics)
        for topic in response.topics:
            topic.topic_id = self.topic_ids.get(host, ZERO_UUID)
        return response

    def _metadata(self, view: dict[str, int] | None, wanted: Any) -> MetadataResponse:
        names = sorted(view or {}) if wanted is None else [each.name for each in wanted]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return MetadataResponse(
            brokers=[]
            if view is None
            else [MetadataResponseBroker(node_id=n, host=h, port=1) for n, h in BROKERS.items()],
            topics=[
                MetadataResponseTopic(
                    name=name,
                    error_code=0 if name in (view or {}) else int(unknown),
                    partitions=[
                        MetadataResponsePartition(
                            partition_index=number,
                            leader_id=self.leader,
                            leader_epoch=self.leader_epoch,
                        )
                        for number in range((view or {}).get(name, 0))
                    ],
                )
                for name in names
            ],
        )


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    there = Brokers()

    class FakeConnection:
        def __init__(self, host: str, port: int, options: ClientOptions) -> None:
            self.host = host
            self.is_open = False

        def open(self) -> None:
            self.is_open = True

        def close(self) -> None:
            self.is_open = False

        def request(self, message: Any, highest_version: int | None = None) -> Any:
            try:
                return there.answer(self.host, message)
            except KafkaError:
                self.close()
                raise

    class FakeClock:
        def monotonic_ms(self) -> float:
            return there.passed_ms

    def pause(milliseconds: int) -> None:
        there.passed_ms += milliseconds

    monkeypatch.setattr(module, "BlockingConnection", FakeConnection)
    monkeypatch.setattr(module, "WallClock", FakeClock)
    monkeypatch.setattr(module, "pause", pause)
    return there


def cluster_of(**options: str) -> Cluster:
    given = {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
    return Cluster(client_options({"kafka.bootstrap.servers": "a:1,b:1", **given}))


def partitions(count: int, topic: str = "t") -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


def test_a_pattern_leaves_kafkas_own_topics_out(brokers: Brokers) -> None:
    brokers.views["a"] = {"t": 1, "__consumer_offsets": 50, "__transaction_state": 50}
    assert cluster_of().partitions(TopicSelection(pattern=".*")) == partitions(1)


@pytest.mark.parametrize("wanted", [TopicSelection(topics=("t",)), TopicSelection(pattern="t")])
def test_a_broker_that_has_just_started_has_nothing_to_say(
    brokers: Brokers, wanted: TopicSelection
) -> None:
    brokers.views["a"] = None
    assert cluster_of().partitions_there(wanted, partitions(2)) == partitions(2)
    assert brokers.asked == ["a", "b"]


@pytest.mark.parametrize("wanted", [TopicSelection(topics=("t",)), TopicSelection(pattern="t")])
@pytest.mark.parametrize("view", [{}, {"t": 1}])
def test_a_partition_counts_as_deleted_only_if_no_broker_has_it(
    brokers: Brokers, wanted: TopicSelection, view: dict[str, int]
) -> None:
    brokers.views["a"] = view
    assert cluster_of().partitions_there(wanted, partitions(2)) == partitions(2)
    brokers.views["b"] = view
    left = view.get("t", 0)
    assert cluster_of().partitions_there(wanted, partitions(2)) == partitions(left)
    assert cluster_of().partitions_there(wanted) == partitions(left)


def test_an_error_of_a_topic_does_not_mean_that_it_is_gone(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = brokers._metadata

    def denied(view: dict[str, int] | None, wanted: Any) -> MetadataResponse:
        answer = whole(view, wanted)
        for topic in answer.topics:
            topic.error_code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return answer

    monkeypatch.setattr(brokers, "_metadata", denied)
    with pytest.raises(KafkaError, match="topic t: TOPIC_AUTHORIZATION_FAILED"):
        cluster_of().partitions_there(TopicSelection(topics=("t",)))


def test_a_leader_that_died_without_a_word_is_survived(brokers: Brokers) -> None:
    """It costs a time-out of 30 s, more than an unreachable cluster is worth."""
    cluster = cluster_of()
    ask: Callable[[], Any] = lambda: cluster.list_offsets({partitions(1)[0]: -1})  # noqa: E731
    assert ask() == {partitions(1)[0]: END}
    brokers.dead.add("a")
    brokers.hang_ms = cluster.options.request_timeout_ms
    brokers.leader = 2
    assert ask() == {partitions(1)[0]: END}
    assert brokers.passed_ms < 40_000
    brokers.asked.clear()
    cluster.describe(["t"])
    assert brokers.asked == ["b"]  # a connected broker is tried first


def test_an_unreachable_cluster_is_given_up_soon(brokers: Brokers) -> None:
    brokers.dead = {"a", "b"}
    cluster = cluster_of()
    with pytest.raises(KafkaError, match=r"does not answer \(servers: a:1,b:1\)"):
        cluster.partitions(TopicSelection(topics=("t",)))
    assert 8_000 <= brokers.passed_ms < 10_000  # no attempt begins after the time-out
    brokers.passed_ms = 0
    with pytest.raises(KafkaError):
        cluster_of(default_api_timeout_ms="500").partitions(TopicSelection(topics=("t",)))
    assert brokers.passed_ms < 1000


def test_list_offsets_requests_carry_the_known_leader_epoch(brokers: Brokers) -> None:
    """As Kafka's consumer does: a leader of an older epoch refuses."""
    assert cluster_of().list_offsets(dict.fromkeys(partitions(2), -1)) == dict.fromkeys(
        partitions(2), END
    )
    (request,) = brokers.listed
    (topic,) = request.topics
    assert [row.current_leader_epoch for row in topic.partitions] == [4, 4]


@pytest.mark.mission("CFAST-3")
def test_lookups_are_repeated_soon_and_ever_later(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a quarter of retry.backoff.ms on, up to retry.backoff.max.ms."""
    pauses: list[int] = []

    def pause(milliseconds: int) -> None:
        pauses.append(milliseconds)
        brokers.passed_ms += milliseconds

    monkeypatch.setattr(module, "pause", pause)
    brokers.dead = {"a", "b"}
    with pytest.raises(KafkaError):
        cluster_of(retry_backoff_max_ms="50").partitions(TopicSelection(topics=("t",)))
    near = [25, 31, 39, 48, 50, 50]
    assert all(0.79 * want <= got <= 1.2 * want for got, want in zip(pauses, near, strict=False))
    assert max(pauses) <= 50
    assert brokers.asked[:4] == ["a", "b", "a", "b"], "the next broker at once"


@pytest.mark.mission("CFAST-4")
def test_metadata_with_an_older_leader_epoch_are_not_taken(brokers: Brokers) -> None:
    """A broker that has not heard of the failover yet still names the dead leader (KIP-320)."""
    cluster, tp = cluster_of(), partitions(1)[0]
    brokers.leader, brokers.leader_epoch = 2, 5
    assert cluster.leader(tp) == 2
    cluster.note_error(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    brokers.leader, brokers.leader_epoch = 1, 4
    assert cluster.leader(tp) == 2
    cluster.note_error(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    brokers.leader_epoch = 6
    assert cluster.leader(tp) == 1


def test_a_cluster_that_is_not_connected_can_be_sent_to_another_process() -> None:
    """Spark pickles the stream reader, which holds one, for its tasks."""
    there = pickle.loads(pickle.dumps(cluster_of()))
    assert there.options == cluster_of().options
    assert there.backoff_ms(ErrorCode.NOT_ENOUGH_REPLICAS, 0) in range(80, 121)


@pytest.mark.mission("SPS-2")
def test_tasks_of_a_process_share_connections_and_metadata(brokers: Brokers) -> None:
    options = cluster_of().options
    for _ in range(2):  # each task gets equal options, unpickled
        task = kept_cluster(pickle.loads(pickle.dumps(options)))
        assert task.leader(partitions(1)[0]) == 1
        assert task.connection_to(1).is_open
    assert brokers.asked == ["a"]
    kept_cluster.cache_clear()


@pytest.mark.mission("SPS-2")
def test_a_partition_that_kept_metadata_lack_is_looked_up(brokers: Brokers) -> None:
    """It was added after the metadata were received, and a missing one counts as deleted."""
    cluster = cluster_of()
    cluster.describe(["t"])
    brokers.views["a"] = {"t": 3}
    assert cluster.leader(TopicPartition("t", 2)) == 1
    with pytest.raises(KafkaError, match="t-3 does not exist"):
        cluster.leader(TopicPartition("t", 3))


def test_a_topic_counts_as_created_again_only_if_no_broker_gives_its_old_id(
    brokers: Brokers,
) -> None:
    """While brokers disagree, one of them has stale metadata, and the ids do not show which."""
    wanted, known = TopicSelection(topics=("t",)), {"t": OLD}
    brokers.topic_ids = {"a": NEW, "b": OLD}
    with pytest.raises(KafkaError, match=r"INCONSISTENT_TOPIC_ID: .* different topic ids"):
        cluster_of().partitions_there(wanted, known_ids=known)
    assert 55_000 <= brokers.passed_ms <= 60_000
    with pytest.raises(KafkaError, match="brokers give different topic ids"):
        cluster_of().leader(partitions(1)[0], OLD)
    brokers.topic_ids["b"] = NEW
    cluster = cluster_of()
    assert cluster.partitions_there(wanted, known_ids=known) == partitions(2)
    assert cluster.topic_ids(["t", "absent"]) == {"t": NEW}
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_ID"):
        cluster.leader(partitions(1)[0], OLD)


def test_a_broker_that_catches_up_is_waited_for(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers.topic_ids = {"a": OLD, "b": NEW}

    def catch_up(milliseconds: int) -> None:
        brokers.topic_ids["a"] = NEW

    monkeypatch.setattr(module, "pause", catch_up)
    cluster = cluster_of()
    cluster.partitions_there(TopicSelection(topics=("t",)), known_ids={"t": NEW})
    assert cluster.topic_ids(["t"]) == {"t": NEW}


@pytest.mark.mission("SPS-2")
def test_kept_metadata_with_another_topic_id_are_looked_up_again(brokers: Brokers) -> None:
    """An earlier task of this process has fetched them, before the topic was created again."""
    brokers.topic_ids = {"a": OLD, "b": OLD}
    cluster = cluster_of()
    cluster.describe(["t"])
    brokers.topic_ids = {"a": NEW, "b": NEW}
    assert cluster.leader(partitions(1)[0], NEW) == 1
    brokers.topic_ids = {"a": ZERO_UUID, "b": ZERO_UUID}  # as brokers before 2.8
    cluster.describe(["t"])
    assert cluster.leader(partitions(1)[0], OLD) == 1


def test_partitions_of_a_topic_with_another_id_are_not_added(brokers: Brokers) -> None:
    brokers.views = {"a": {"t": 1}, "b": {"t": 3}}
    brokers.topic_ids = {"a": NEW, "b": OLD}
    wanted = TopicSelection(topics=("t",))
    assert cluster_of().partitions_there(wanted, partitions(3)) == partitions(1)
