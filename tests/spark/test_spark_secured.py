"""Spark over TLS and SASL with an authorizer: what a job needs, and where no secret is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
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

from minikafka.spark.progress import ProgressListener
from tests.spark.kafka_side import committed, numbered, produce
from tests.support.cluster.mixed_cluster import OURS, MixedCluster
from tests.support.security.certificates import Authority
from tests.support.security.sasl_brokers import SCRAM, tls_properties
from tests.support.zookeeper.process import running_zookeeper

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.mission("SPK-8")]

LISTENER = "SASL_SSL"
PASSWORD = "hush-of-spark"
KEY_MARK = "PRIVATE KEY"
RECORDS = 60
# What docs/spark.md says that a job needs.
ACLS = [
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
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
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
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        row = UserScramCredentialUpsertion("spark", info, PASSWORD.encode())
        admin.alter_user_scram_credentials([row])["spark"].result(30)
        allow = AclPermissionType.ALLOW
        bindings = [
            AclBinding(kind, name, pattern, "User:spark", "*", operation, allow)
            for kind, name, pattern, operation in ACLS
        ]
        for future in admin.create_acls(bindings).values():
            future.result(30)
        yield cluster


def options(cluster: MixedCluster, password: str = PASSWORD) -> dict[str, str]:
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
        "kafka.sasl.jaas.config": f'{SCRAM} required username="spark" password="{password}";',
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


def shown_in_the_ui(spark: Any) -> list[str]:
    """What the page SQL of Spark's UI shows of each execution."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    found = []
    for number in range(executions.size()):
        each = executions.apply(number)
        found += [each.description(), each.details(), each.physicalPlanDescription()]
    return found


def test_a_job_logs_in_and_its_secrets_stay_with_it(
    streams: Any, secured: MixedCluster, tmp_path: Path, spark_log: Path
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
    assert committed(secured.bootstrap, "to") == list(range(RECORDS))
    while not lines or not lines[-1].endswith(" ended"):
        threading.Event().wait(0.05)
    streams.streams.removeListener(listener)
    assert not any("not committed" in line for line in lines), lines

    wrong = {**given, **options(secured, "hush-wrong")}
    with pytest.raises(Exception, match="Authentication failed") as refused:
        streams.read.format("minikafka").options(**wrong).load().count()

    plans = [frame._jdf.queryExecution().toString() for frame in (batch, by_sql)]
    plans.append(query._jsq.explainInternal(True))
    logged = spark_log.read_text()
    assert str(tmp_path / "checkpoint") in logged
    shown = [*plans, *lines, *shown_in_the_ui(streams), logged, str(refused.value)]
    shown += [query.lastProgress.json, *stored(tmp_path / "checkpoint")]
    for text in shown:
        for secret in ("hush", KEY_MARK):
            place = text.find(secret)
            assert place < 0, text[max(0, place - 500) : place + 100]


def stored(folder: Path) -> list[str]:
    found = [
        file.read_bytes().decode(errors="replace") for file in folder.rglob("*") if file.is_file()
    ]
    assert len(found) >= 4
    return found
