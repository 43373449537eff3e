"""Kafka's broker keys that have no effect here: keys that are accepted, and keys that are refused.

DescribeConfigs shows both kinds with Kafka's type and default. A value must be valid for Kafka. A
refused key may only have its default: an operator who sets another value relies on its effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from minikafka.kernel.config import (
    ConfigType,
    Setting,
    at_least,
    between,
    non_empty,
    one_of,
    row_of,
)

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1

_bool = row_of(ConfigType.BOOLEAN, effective=False)
_string = row_of(ConfigType.STRING, effective=False)
_int = row_of(ConfigType.INT, effective=False)
_short = row_of(ConfigType.SHORT, effective=False)
_long = row_of(ConfigType.LONG, effective=False)
_double = row_of(ConfigType.DOUBLE, effective=False)
_list = row_of(ConfigType.LIST, effective=False)
_class = row_of(ConfigType.CLASS, effective=False)
_password = row_of(ConfigType.PASSWORD, effective=False)


def _minus_one_or_more(value: int) -> str | None:
    return None if value == -1 or value >= 1 else "Value must be -1 or at least 1"


class SettingGroup(NamedTuple):
    """Keys that have no effect for the same reason."""

    reason: str
    rows: tuple[Setting, ...]


# fmt: off
INEFFECTIVE_GROUPS: tuple[SettingGroup, ...] = (
    SettingGroup("A broker here is one event loop, with a few helper threads for disks.", (
        _int("share.coordinator.threads", 1, "Threads of the share coordinator.", at_least(1)),
        _int("background.threads", 10, "Threads for background tasks.", at_least(1)),
        _int("group.coordinator.threads", 1, "Threads of the new group coordinator.", at_least(1)),
        _int("num.io.threads", 8, "Threads that process requests.", at_least(1)),
        _int("num.network.threads", 3, "Threads of each listener that receive requests and send responses.", at_least(1)),
    )),
    SettingGroup("Metrics go to metrics.listener and debug.listener.", (
        _bool("auto.include.jmx.reporter", True, "Report metrics over JMX although metric.reporters does not name that reporter."),
        _int("kafka.metrics.polling.interval.secs", 10, "Seconds between two readings of kafka.metrics.reporters.", at_least(1)),
        _list("kafka.metrics.reporters", (), "Classes that report the metrics of the Yammer library."),
        _list("metric.reporters", (), "Classes that report metrics."),
        _int("metrics.num.samples", 2, "Samples kept for each metric.", at_least(1)),
        _string("metrics.recording.level", "INFO", "Least important level of metrics that are recorded."),
        _long("metrics.sample.window.ms", 30000, "Length of a sample.", at_least(1)),
    )),
    SettingGroup("The operating system sizes the buffers of sockets, and the length of the accept queue is fixed.", (
        _int("replica.socket.receive.buffer.bytes", 64 * 1024, "Receive buffer of a follower's connection."),
        _int("socket.listen.backlog.size", 50, "Connections that may wait to be accepted.", at_least(1)),
        _int("socket.receive.buffer.bytes", 100 * 1024, "Receive buffer of a client's connection; -1 for the system's."),
        _int("socket.send.buffer.bytes", 100 * 1024, "Send buffer of a client's connection; -1 for the system's."),
    )),
    SettingGroup("See replica.socket.timeout.ms and controller.socket.timeout.ms.", (
        _int("request.timeout.ms", 30000, "Time-out of requests that the broker sends as a client."),
        _long("socket.connection.setup.timeout.max.ms", 30000, "Longest time-out of a new connection after many failures."),
        _long("socket.connection.setup.timeout.ms", 10000, "Time-out of a new connection."),
    )),
    SettingGroup("Segment files grow as records are appended.", (
        _bool("log.preallocate", False, "Give a new segment file its full size at once."),
    )),
    SettingGroup("Requests to ZooKeeper are bundled instead, hundreds in one.", (
        _int("zookeeper.max.in.flight.requests", 10, "Most requests to ZooKeeper without a response.", at_least(1)),
    )),
    SettingGroup("Our ZooKeeper client speaks TLS without a Java class, and recognises the formats of stores.", (
        _string("zookeeper.clientCnxnSocket", None, "Class of the ZooKeeper client's connection; Kafka's TLS needs the one of Netty."),
        _string("zookeeper.ssl.keystore.type", None, "Format of that file: PEM and PKCS12 are recognised, JKS is refused."),
        _string("zookeeper.ssl.truststore.type", None, "Format of that file: PEM and PKCS12 are recognised, JKS is refused."),
    )),
    SettingGroup("All commits wait for the whole ISR.", (
        _short("offsets.commit.required.acks", -1, "Replicas that must have an offset commit; -1 for the ISR."),
    )),
    SettingGroup("The Kerberos library gets tickets for the keys of a keytab itself, and reads a ticket cache at each login.", (
        _string("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", "Path of Kerberos' kinit."),
        _long("sasl.kerberos.min.time.before.relogin", 60000, "Least pause between two Kerberos logins, in ms."),
        _double("sasl.kerberos.ticket.renew.jitter", 0.05, "Random share added to the time of a ticket's renewal."),
        _double("sasl.kerberos.ticket.renew.window.factor", 0.8, "Share of a ticket's life after which it is renewed."),
    )),
    SettingGroup("As with Kafka, a broker reads it with the prefix of a listener and a mechanism alone: listener.name.LISTENER.MECHANISM.", (
        _password("sasl.jaas.config", None, "Login of a SASL mechanism, as in a JAAS file."),
        _class("sasl.login.callback.handler.class", None, "Class that answers callbacks of a login."),
        _class("sasl.login.class", None, "Class that logs in."),
        _class("sasl.server.callback.handler.class", None, "Class that answers SASL callbacks as a server."),
    )),
    SettingGroup("Brokers request no tokens of an OAuth provider.", (
        _int("sasl.login.connect.timeout.ms", None, "Time-out of a connection to an OAuth provider."),
        _int("sasl.login.read.timeout.ms", None, "Time-out of a response of an OAuth provider."),
        _short("sasl.login.refresh.buffer.seconds", 300, "Seconds before its end by which a credential should be refreshed."),
        _short("sasl.login.refresh.min.period.seconds", 60, "Least seconds between two refreshes."),
        _double("sasl.login.refresh.window.factor", 0.8, "Share of a credential's life after which it is refreshed."),
        _double("sasl.login.refresh.window.jitter", 0.05, "Random share added to that time."),
        _long("sasl.login.retry.backoff.max.ms", 10000, "Longest pause between attempts at an OAuth provider."),
        _long("sasl.login.retry.backoff.ms", 100, "First pause between attempts at an OAuth provider."),
        _string("sasl.oauthbearer.token.endpoint.url", None, "Address at which tokens are requested."),
    )),
    SettingGroup("Python's ssl module speaks TLS, not Java.", (
        _string("ssl.keymanager.algorithm", "SunX509", "Java's algorithm that chooses a key."),
        _string("ssl.keystore.type", "JKS", "Format of that file: PEM and PKCS12 are recognised, JKS is refused."),
        _string("ssl.protocol", "TLSv1.3", "TLS version of the Java context; see ssl.enabled.protocols."),
        _string("ssl.provider", None, "Java's provider of TLS."),
        _string("ssl.secure.random.implementation", None, "Java's source of random numbers for TLS."),
        _string("security.providers", None, "Java classes that add security algorithms."),
        _string("ssl.trustmanager.algorithm", "PKIX", "Java's algorithm that checks certificates."),
        _string("ssl.truststore.type", "JKS", "Format of that file: PEM and PKCS12 are recognised, JKS is refused."),
    )),
    SettingGroup("Groups of KIP-848, KIP-932 and KIP-1071 are served without these.", (
        _int("group.coordinator.append.linger.ms", 10, "How long the new coordinator collects records before it writes them.", at_least(0)),
        _int("share.coordinator.append.linger.ms", -1, "How long the share coordinator collects records before it writes them.", at_least(-1)),
        _bool("group.coordinator.new.enable", False, "Use the new group coordinator.", internal=True),
        _bool("group.share.enable", False, "Serve share groups.", internal=True),
        _short("group.share.max.groups", 10, "Most share groups.", between(1, 100)),
    )),
    SettingGroup("Kafka uses it with KRaft. Brokers here keep their metadata in ZooKeeper.", (
        _int("broker.heartbeat.interval.ms", 2000, "Pause between a broker's heartbeats to the controller."),
        _int("broker.session.timeout.ms", 9000, "Silence after which the controller fences a broker."),
        _int("controller.quorum.append.linger.ms", 25, "How long the leader of the quorum collects records."),
        _int("controller.quorum.election.backoff.max.ms", 1000, "Longest pause before another election."),
        _int("controller.quorum.election.timeout.ms", 1000, "Wait for votes before another election."),
        _int("controller.quorum.fetch.timeout.ms", 2000, "Silence of the leader after which a voter calls an election."),
        _int("controller.quorum.request.timeout.ms", 2000, "Time-out of requests of the quorum."),
        _int("controller.quorum.retry.backoff.ms", 20, "Pause before such a request is sent again."),
        _string("early.start.listeners", None, "Listeners that start before the broker is authorized."),
        _bool("eligible.leader.replicas.enable", False, "Keep replicas that may lead although they left the ISR."),
        _int("initial.broker.registration.timeout.ms", 60000, "Longest wait for the first registration."),
        _long("log.dir.failure.timeout.ms", 30000, "How long a broker tries to report a failed log directory before it stops.", at_least(1)),
        _string("metadata.log.dir", None, "Directory of the metadata log."),
        _long("metadata.log.max.record.bytes.between.snapshots", 20 * 1024 * 1024, "Bytes of metadata after which a snapshot is made.", at_least(1)),
        _long("metadata.log.max.snapshot.interval.ms", 3600000, "Time after which a snapshot is made; 0 for no such time.", at_least(0)),
        _int("metadata.log.segment.bytes", 1024 * 1024 * 1024, "Segment size of the metadata log.", at_least(12)),
        _int("metadata.log.segment.min.bytes", 8 * 1024 * 1024, "Least segment size of the metadata log.", at_least(12), internal=True),
        _long("metadata.log.segment.ms", 604800000, "Age at which a segment of the metadata log is rolled."),
        _int("metadata.max.idle.interval.ms", 500, "Pause between no-op records of an idle controller; 0 for none.", at_least(0)),
        _long("metadata.max.retention.bytes", 100 * 1024 * 1024, "Most bytes of the metadata log and its snapshots."),
        _long("metadata.max.retention.ms", 604800000, "How long the metadata log and its snapshots are kept."),
        _string("sasl.mechanism.controller.protocol", "GSSAPI", "SASL mechanism towards a KRaft controller."),
        _long("server.max.startup.time.ms", MAX_LONG, "Longest time that a start may take.", at_least(0), internal=True),
        _long("unclean.leader.election.interval.ms", 300000, "Pause between looks for partitions that need an unclean leader.", at_least(1), internal=True),
        _bool("unstable.api.versions.enable", False, "Offer versions of requests that are not final.", internal=True),
        _bool("unstable.feature.versions.enable", False, "Allow versions of features that are not final.", internal=True),
        _int("zookeeper.metadata.migration.min.batch.size", 200, "Least records in a batch of a migration to KRaft.", at_least(1), internal=True),
    )),
    SettingGroup("Tiered storage is not part of this broker.", (
        _long("log.local.retention.bytes", -2, "Most bytes that stay on the local disk; -2 for log.retention.bytes.", at_least(-2)),
        _long("log.local.retention.ms", -2, "How long data stays on the local disk; -2 for log.retention.ms.", at_least(-2)),
        _int("remote.fetch.max.wait.ms", 500, "Longest wait for remote data in a Fetch.", at_least(1)),
        _long("remote.log.index.file.cache.total.size.bytes", 1024 * 1024 * 1024, "Local space for indexes of remote segments.", at_least(1)),
        _int("remote.log.manager.copier.thread.pool.size", -1, "Threads that copy segments; -1 for remote.log.manager.thread.pool.size.", _minus_one_or_more),
        _long("remote.log.manager.copy.max.bytes.per.second", MAX_LONG, "Most bytes a second that are copied to remote storage.", at_least(1)),
        _int("remote.log.manager.copy.quota.window.num", 11, "Samples kept for that rate.", at_least(1)),
        _int("remote.log.manager.copy.quota.window.size.seconds", 1, "Length of such a sample.", at_least(1)),
        _int("remote.log.manager.expiration.thread.pool.size", -1, "Threads that delete remote segments; -1 for remote.log.manager.thread.pool.size.", _minus_one_or_more),
        _long("remote.log.manager.fetch.max.bytes.per.second", MAX_LONG, "Most bytes a second that are read from remote storage.", at_least(1)),
        _int("remote.log.manager.fetch.quota.window.num", 11, "Samples kept for that rate.", at_least(1)),
        _int("remote.log.manager.fetch.quota.window.size.seconds", 1, "Length of such a sample.", at_least(1)),
        _long("remote.log.manager.task.interval.ms", 30000, "Pause between looks for segments to copy or delete.", at_least(1)),
        _long("remote.log.manager.task.retry.backoff.max.ms", 30000, "Longest pause before such work is tried again.", at_least(1), internal=True),
        _long("remote.log.manager.task.retry.backoff.ms", 500, "First pause before such work is tried again.", at_least(1), internal=True),
        _double("remote.log.manager.task.retry.jitter", 0.2, "Random share of those pauses.", between(0, 0.5), internal=True),
        _int("remote.log.manager.thread.pool.size", 10, "Threads that plan this work.", at_least(1)),
        _int("remote.log.metadata.custom.metadata.max.bytes", 128, "Largest custom metadata of a remote segment.", at_least(0)),
        _string("remote.log.metadata.manager.class.name", "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager", "Class that keeps the metadata of remote segments.", non_empty),
        _string("remote.log.metadata.manager.class.path", None, "Where that class is found."),
        _string("remote.log.metadata.manager.impl.prefix", "rlmm.config.", "Prefix of the keys of that class.", non_empty),
        _string("remote.log.metadata.manager.listener.name", None, "Listener that it uses to reach brokers.", non_empty),
        _int("remote.log.reader.max.pending.tasks", 100, "Most reads of remote data that wait for a thread.", at_least(1)),
        _int("remote.log.reader.threads", 10, "Threads that read remote data.", at_least(1)),
        _string("remote.log.storage.manager.class.name", None, "Class that stores remote segments.", non_empty),
        _string("remote.log.storage.manager.class.path", None, "Where that class is found."),
        _string("remote.log.storage.manager.impl.prefix", "rsm.config.", "Prefix of the keys of that class.", non_empty),
    )),
)

# Keys without a row: those that Kafka removed, and the ends of families of keys.
_REMOVED = "Kafka 3.0 removed it; see advertised.listeners."
IGNORED_BROKER_SETTINGS: Mapping[str, str] = {
    "advertised.host.name": _REMOVED,
    "advertised.port": _REMOVED,
}
IGNORED_BROKER_PREFIXES: Mapping[str, str] = {
    "client.quota.": "Brokers here load no Java class, so client.quota.callback.class is refused.",
    "listener.name.": "Only keys of TLS and SASL and the limits of connections are read for a single listener; others count for all.",
    "rlmm.config.": "Tiered storage is not part of this broker.",
    "rsm.config.": "Tiered storage is not part of this broker.",
}

REFUSED_GROUPS: tuple[SettingGroup, ...] = (
    SettingGroup("Brokers here keep their metadata in ZooKeeper.", (
        _string("controller.listener.names", None, "Listeners of KRaft controllers."),
        _list("controller.quorum.bootstrap.servers", (), "Addresses at which the KRaft quorum is found."),
        _list("controller.quorum.voters", (), "Ids and addresses of the KRaft quorum."),
        _list("process.roles", (), "Roles of a KRaft process: broker, controller or both.", one_of("broker", "controller")),
        _bool("zookeeper.metadata.migration.enable", False, "Move the metadata from ZooKeeper to KRaft."),
    )),
    SettingGroup("Brokers here keep their metadata in ZooKeeper. Set broker.id.", (
        _int("node.id", -1, "Id of a KRaft process; shown with the value of broker.id."),
    )),
    SettingGroup("Brokers here load no Java class.", (
        _class("client.quota.callback.class", None, "Class that decides which quota a request belongs to."),
        _class("sasl.client.callback.handler.class", None, "Class that answers SASL callbacks as a client."),
        _class("ssl.engine.factory.class", None, "Class that makes TLS engines."),
        _class("principal.builder.class", "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder", "Class that makes a principal of a login."),
    )),
    SettingGroup("Python's ssl module asks nobody whether a certificate is revoked.", (
        _bool("zookeeper.ssl.crl.enable", False, "Check revocation lists for ZooKeeper's certificate."),
        _bool("zookeeper.ssl.ocsp.enable", False, "Ask an OCSP service about ZooKeeper's certificate."),
    )),
    SettingGroup("Tiered storage is not part of this broker.", (
        _bool("remote.log.storage.system.enable", False, "Keep old segments in remote storage."),
    )),
)
# fmt: on

INEFFECTIVE_SETTINGS: tuple[Setting, ...] = tuple(
    row for group in INEFFECTIVE_GROUPS for row in group.rows
)
REFUSED_SETTINGS: tuple[Setting, ...] = tuple(row for group in REFUSED_GROUPS for row in group.rows)
_AUTHORIZER_SESSION = "The authorizer uses the broker's ZooKeeper session."
# Refused keys and why; keys of Kafka's authorizer have no row.
REFUSED_BROKER_SETTINGS: Mapping[str, str] = {
    "authorizer.zookeeper.url": _AUTHORIZER_SESSION,
    "authorizer.zookeeper.connection.timeout.ms": _AUTHORIZER_SESSION,
    "authorizer.zookeeper.session.timeout.ms": _AUTHORIZER_SESSION,
    "authorizer.zookeeper.max.in.flight.requests": _AUTHORIZER_SESSION,
    **{row.name: group.reason for group in REFUSED_GROUPS for row in group.rows},
}
