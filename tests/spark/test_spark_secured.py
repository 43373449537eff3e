"""Spark over TLS and SASL with an authorizer: what a job needs, and where no secret is."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from minikafka.cli.main import main
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.errors import KafkaError
from minikafka.spark.client_options import client_options
from minikafka.spark.cluster import Cluster as SparkCluster
from minikafka.spark.group_commits import commit_offsets
from minikafka.spark.progress import ProgressListener
from tests.spark.kafka_side import committed, numbered, offsets_of_group, produce
from tests.support.cluster.mixed_cluster import OURS, MixedCluster
from tests.support.security.certificates import Authority
from tests.support.security.sasl_brokers import OAUTHBEARER, SCRAM, tls_properties
from tests.support.security.token_server import CLIENT_ID, CLIENT_SECRET, TokenServer
from tests.support.zookeeper.process import running_zookeeper

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.mission("SPK-8")]

LISTENER = "SASL_SSL"
PASSWORD = "hush-of-spark"
KEY_MARK = "PRIVATE KEY"
RECORDS = 60
Acl = tuple[ResourceType, str, ResourcePatternType, AclOperation]
# What docs/how-to/spark.md says that a job needs.
ACLS: list[Acl] = [
    (ResourceType.TOPIC, "from", ResourcePatternType.LITERAL, AclOperation.READ),
    (ResourceType.TOPIC, "to", ResourcePatternType.LITERAL, AclOperation.WRITE),
    (ResourceType.TOPIC, "to", ResourcePatternType.LITERAL, AclOperation.READ),
    (ResourceType.TRANSACTIONAL_ID, "mk-", ResourcePatternType.PREFIXED, AclOperation.WRITE),
    (ResourceType.GROUP, "mk-", ResourcePatternType.PREFIXED, AclOperation.READ),
    (ResourceType.GROUP, "spark-copy", ResourcePatternType.LITERAL, AclOperation.READ),
]


@pytest.fixture(scope="module")
def secured(java_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    home = tmp_path_factory.mktemp("secured")
    properties = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": (
            f'{OAUTHBEARER} required unsecuredLoginStringClaim_sub="broker";'
        ),
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        **tls_properties(home / "stores", Authority().issue("broker", ("127.0.0.1",))),
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",  # of the listener PLAINTEXT
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
    }
    with (
        running_zookeeper() as zookeeper,
        MixedCluster(home, zookeeper.connect, (OURS,), properties, {}, (LISTENER,)) as cluster,
    ):
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for future in admin.create_topics([NewTopic(t, 3, 1) for t in ("from", "to")]).values():
            future.result(30)
        add_user(admin, "spark", ACLS)
        for number, acl in enumerate(ACLS):
            add_user(admin, f"spark-{number}", [each for each in ACLS if each != acl])
        yield cluster


def add_user(admin: AdminClient, name: str, acls: Sequence[Acl]) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    row = UserScramCredentialUpsertion(name, info, PASSWORD.encode())
    admin.alter_user_scram_credentials([row])[name].result(30)
    allow = AclPermissionType.ALLOW
    bindings = [
        AclBinding(kind, resource, pattern, f"User:{name}", "*", operation, allow)
        for kind, resource, pattern, operation in acls
    ]
    for future in admin.create_acls(bindings).values():
        future.result(30)


def options(cluster: MixedCluster, password: str = PASSWORD, user: str = "spark") -> dict[str, str]:
    """The options of the job: trust in a file, a key of a client as text, and a login."""
    own = Authority().issue("client")
    return {
        "kafka.bootstrap.servers": cluster.addresses(LISTENER),
        "kafka.security.protocol": LISTENER,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(cluster.directory / "stores" / "ca.pem"),
        "kafka.ssl.keystore.key": own.key_pem().decode(),
        "kafka.ssl.keystore.certificate.chain": own.chain_pem.decode(),
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{SCRAM} required username="{user}" password="{password}";',
    }


def by_token(cluster: MixedCluster) -> dict[str, str]:
    claims = 'unsecuredLoginStringClaim_sub="spark" unsecuredLoginStringClaim_pin="hush-pin"'
    return {
        **options(cluster),
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.jaas.config": f"{OAUTHBEARER} required {claims};",
    }


@pytest.fixture
def spark_log(spark: Any, tmp_path: Path) -> Iterator[Path]:
    """The file with what Spark logs at INFO, and its context."""
    log4j = spark._jvm.org.apache.logging.log4j
    root = log4j.LogManager.getContext(False).getConfiguration().getRootLogger()
    file = tmp_path / "spark.log"
    builder = log4j.core.appender.FileAppender.newBuilder().setName("secured")
    appender = builder.withFileName(str(file)).build()
    appender.start()
    root.addAppender(appender, None, None)
    spark.sparkContext.setLogLevel("INFO")
    yield file
    spark.sparkContext.setLogLevel("ERROR")
    root.removeAppender("secured")
    appender.stop()


@pytest.fixture
def event_log(spark: Any, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """A function that returns what the history server is shown of the session until then."""
    jvm, context = spark._jvm, spark.sparkContext._jsc.sc()
    conf = context.conf().clone()
    for key in ("compress", "rolling.enabled"):
        conf.set(f"spark.eventLog.{key}", "false")
    place = jvm.java.net.URI(tmp_path.as_uri())
    kind = jvm.org.apache.spark.scheduler.EventLoggingListener
    listener = kind("events", jvm.scala.Option.empty(), place, conf, context.hadoopConfiguration())
    listener.start()
    context.addSparkListener(listener)

    def read() -> str:
        context.listenerBus().waitUntilEmpty()
        listener.stop()
        return (tmp_path / "events").read_text()

    yield read
    context.removeSparkListener(listener)


def shown_in_the_ui(spark: Any) -> list[str]:
    """What the page SQL of Spark's UI shows of each execution."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    found = []
    for number in range(executions.size()):
        each = executions.apply(number)
        found += [each.description(), each.details(), each.physicalPlanDescription()]
    return found


def test_a_job_logs_in_and_its_secrets_stay_with_it(
    streams: Any,
    secured: MixedCluster,
    tmp_path: Path,
    spark_log: Path,
    event_log: Callable[[], str],
) -> None:
    produce(secured.bootstrap, "from", numbered(0, RECORDS))
    given = {**options(secured), "subscribe": "from", "startingOffsets": "earliest"}
    batch = streams.read.format("minikafka").options(**given).load()
    assert batch.count() == RECORDS
    pairs = ", ".join(f"'{key}' '{text}'" for key, text in given.items())
    streams.sql(f"CREATE OR REPLACE TEMPORARY VIEW secured USING minikafka OPTIONS({pairs})")
    by_sql = streams.sql("SELECT count(*) AS n FROM secured")
    assert by_sql.collect()[0].n == RECORDS

    lines: list[str] = []
    listener = ProgressListener(given["kafka.bootstrap.servers"], lines.append, options=given)
    streams.streams.addListener(listener)
    writer = (
        streams.readStream.format("minikafka")
        .options(**given)
        .load()
        .select("key", "value")
        .writeStream.format("minikafka")
        .queryName("copy")
        .options(**options(secured), topic="to")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
    )
    query = writer.start()
    query.awaitTermination()
    reader = streams.read.format("minikafka").options(**by_token(secured), subscribe="from")
    tokens = reader.load()
    assert tokens.count() == RECORDS
    assert committed(secured.bootstrap, "to") == list(range(RECORDS))
    while not lines or not lines[-1].endswith(" ended"):
        threading.Event().wait(0.05)
    streams.streams.removeListener(listener)
    assert not any("not committed" in line for line in lines), lines

    wrong = {**given, **options(secured, "hush-wrong")}
    with pytest.raises(Exception, match="Authentication failed") as refused:
        streams.read.format("minikafka").options(**wrong).load().count()
    unwritten = batch.select("key", "value").write.format("minikafka").mode("append")
    with pytest.raises(Exception, match="Authentication failed") as unsent:
        unwritten.options(**options(secured, "hush-wrong"), topic="to").save()

    plans = [frame._jdf.queryExecution().toString() for frame in (batch, by_sql, tokens)]
    plans.append(query._jsq.explainInternal(True))
    logged = spark_log.read_text()
    assert str(tmp_path / "checkpoint") in logged
    shown = [*plans, *lines, *shown_in_the_ui(streams), logged, str(refused.value)]
    events = event_log()
    assert "SparkListenerSQLExecutionStart" in events
    shown += [str(unsent.value), events]
    shown += [query.lastProgress.json, *stored(tmp_path / "checkpoint")]
    assert_nothing_shows(("hush", KEY_MARK), shown)


def assert_nothing_shows(secrets: Sequence[str], texts: Sequence[str]) -> None:
    for text in texts:
        for secret in secrets:
            place = text.find(secret)
            assert place < 0, text[max(0, place - 500) : place + 100]


def stored(folder: Path) -> list[str]:
    found = [
        file.read_bytes().decode(errors="replace") for file in folder.rglob("*") if file.is_file()
    ]
    assert len(found) >= 4
    return found


def copy_without_spark(given: dict[str, str]) -> None:
    """The requests of a job: a batch is read, its offsets committed, and a batch is written."""
    import pyarrow as pa
    from pyspark.sql.types import BinaryType, StructField, StructType

    from minikafka.spark.source import DefaultSource
    from minikafka.spark.write.exactly_once import Task, abort_batch, commit_batch, write_task
    from minikafka.spark.write.write_options import write_options

    value = StructType([StructField("value", BinaryType())])
    reader = DefaultSource({**given, "subscribe": "from"}).reader(value)
    for partition in reader.partitions():
        list(reader.read(partition))
    with SparkCluster(client_options(given)) as cluster:
        commit_offsets(cluster, "spark-copy", {TopicPartition("from", 0): 1})
    written = write_options({**given, "topic": "to"}, {"value": "binary"}, streaming=True)
    rows = pa.record_batch({"value": pa.array([b"v"])})
    result = write_task(iter([rows]), written, Task("acls", 0, 0))
    try:
        commit_batch([result], written)
    finally:
        abort_batch([result], written)


@pytest.mark.parametrize(
    ("number", "complaint"),
    [
        (0, r"topic from: .*missing ACL: Read"),
        (1, r"to-\d.*missing ACL: Write on the topic"),
        (2, r"to-0.*missing ACL: Read on the topic"),
        (3, r"of mk-acls-0.*missing ACL: Write on the transactional id"),
        (4, r"of mk-acls-0.*missing ACL: Read on the group"),
        (5, r"of spark-copy.*missing ACL: Read on the group"),
    ],
)
def test_a_job_without_one_of_its_acls_names_it(
    secured: MixedCluster, number: int, complaint: str
) -> None:
    """Of the ACLs with which the job above works."""
    with pytest.raises(KafkaError, match=complaint):
        copy_without_spark(options(secured, user=f"spark-{number}"))


def stream_with_group(given: dict[str, str]) -> tuple[dict[str, Any], str]:
    """Plan two batches of a stream that commits to a group, as Spark does, and read the first.

    Returns the latest offsets that Spark's progress would have then, and the end of the batch."""
    from pyspark.sql.types import BinaryType, StructField, StructType

    from minikafka.spark.options import stream_options
    from minikafka.spark.read.stream_reader import StreamReader

    value = StructType([StructField("value", BinaryType())])
    wanted = {"kafka.group.id": "spark-copy", "startingOffsets": "earliest", "subscribe": "from"}
    reader = StreamReader(value, stream_options({**given, **wanted}))
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    for partition in reader.partitions(reader.initialOffset(), end):
        list(reader.read(partition))
    reader.latestOffset(end, limit)
    reported = reader.reportLatestOffset()
    reader.stop()
    assert reported is not None
    return reported, json.dumps(end)


@pytest.mark.mission("SPF-6")
def test_a_source_with_a_group_needs_read_on_it_and_goes_on_without(
    secured: MixedCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    """The commit is the only thing that fails, with one line that names the ACL."""
    produce(secured.bootstrap, "from", numbered(0, RECORDS))
    line = (
        "offsets not committed to group spark-copy: GROUP_AUTHORIZATION_FAILED, the query's "
        "principal needs the ACL Read on it"
    )
    reported, end = stream_with_group(options(secured, user="spark-5"))
    assert line in reported
    assert capfd.readouterr().err.splitlines() == [
        f"minikafka: {line} (the query goes on: its offsets are in its checkpoint)"
    ]
    reported, end = stream_with_group(options(secured))
    assert list(reported) == ["from"]
    assert capfd.readouterr().err == ""
    found = offsets_of_group(secured.bootstrap, "spark-copy")
    assert found == {int(number): at for number, at in json.loads(end)["from"].items()}
    assert sum(found.values()) >= RECORDS


def by_endpoint(cluster: MixedCluster, url: str, secret: str = CLIENT_SECRET) -> dict[str, str]:
    """The options of a job that requests its tokens at this address."""
    credentials = f'clientId="{CLIENT_ID}" clientSecret="{secret}"'
    return {
        **options(cluster),
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.login.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "kafka.sasl.oauthbearer.token.endpoint.url": url,
        "kafka.sasl.jaas.config": f'{OAUTHBEARER} required {credentials} scope="topics";',
    }


@pytest.mark.mission("SPF-7")
def test_a_query_with_tokens_of_an_endpoint_shows_neither_them_nor_its_secret(
    streams: Any,
    secured: MixedCluster,
    tmp_path: Path,
    spark_log: Path,
    event_log: Callable[[], str],
) -> None:
    produce(secured.bootstrap, "from", numbered(0, RECORDS))
    before = len(committed(secured.bootstrap, "to"))
    with TokenServer("spark") as endpoint:
        given = by_endpoint(secured, endpoint.url)
        reader = streams.readStream.format("minikafka").options(**given, subscribe="from")
        rows = reader.option("startingOffsets", "earliest").load().select("key", "value")
        writer = rows.writeStream.format("minikafka").options(**given, topic="to")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        assert len(committed(secured.bootstrap, "to")) - before >= RECORDS
        wrong = by_endpoint(secured, endpoint.url, "hush-wrong")
        with pytest.raises(Exception, match="status 401: check clientId") as refused:
            streams.read.format("minikafka").options(**wrong, subscribe="from").load().count()
    assert {form["scope"][0] for form in endpoint.forms} == {"topics"}
    shown = [query._jsq.explainInternal(True), query.lastProgress.json, str(refused.value)]
    shown += [*shown_in_the_ui(streams), *stored(tmp_path / "checkpoint"), event_log()]
    shown.append(spark_log.read_text())
    assert str(tmp_path / "checkpoint") in shown[-1]
    token = endpoint.response("spark").decode().partition('"access_token": "')[2][:20]
    assert_nothing_shows(("hush", KEY_MARK, token), shown)


@pytest.mark.mission("SPF-7")
def test_tokens_of_an_endpoint_log_a_job_and_a_verb_in(
    secured: MixedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with TokenServer("spark") as endpoint:
        given = by_endpoint(secured, endpoint.url)
        copy_without_spark(given)
        assert endpoint.forms == [{"grant_type": ["client_credentials"], "scope": ["topics"]}]
        file = tmp_path / "client.properties"
        keys = ("sasl.", "security.", "ssl.truststore.")
        lines = {key.removeprefix("kafka."): text for key, text in given.items()}
        file.write_text("".join(f"{k}={v}\n" for k, v in lines.items() if k.startswith(keys)))
        words = ["topics", "--list", "--bootstrap-server", secured.addresses(LISTENER)]
        assert main([*words, "--command-config", str(file)]) == 0
        assert capsys.readouterr().out.split() == ["from", "to"]
        with pytest.raises(KafkaError, match="refused the client with the status 401") as failed:
            copy_without_spark(by_endpoint(secured, endpoint.url, "hush-wrong"))
        assert "hush" not in str(failed.value)
