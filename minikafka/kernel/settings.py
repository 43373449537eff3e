"""The configuration keys: Kafka's names, types, defaults and what they do here, one row each.

Most broker keys without effect are in ``ineffective_settings``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from minikafka.kernel.config import (
    REQUIRED,
    Config,
    ConfigDef,
    ConfigType,
    Setting,
    at_least,
    between,
    non_empty,
    one_of,
    row_of,
)
from minikafka.kernel.group_limits import group_times_problem
from minikafka.kernel.ineffective_settings import (
    IGNORED_BROKER_PREFIXES,
    IGNORED_BROKER_SETTINGS,
    INEFFECTIVE_SETTINGS,
    REFUSED_BROKER_SETTINGS,
    REFUSED_SETTINGS,
)
from minikafka.kernel.inter_broker_protocol import InterBrokerProtocol
from minikafka.kernel.listeners import (
    CONTROL_PLANE,
    DEBUG_LISTENER,
    METRICS_LISTENER,
    connection_overrides_problem,
    debug_listener_problem,
    metrics_listener_problem,
)
from minikafka.kernel.security_settings import (
    LIMITS_OF_LISTENERS,
    SASL_SETTINGS,
    SASL_SETTINGS_OF_LISTENERS,
    TLS_SETTINGS,
    ZOOKEEPER_SECURITY_SETTINGS,
)

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
MAX_DOUBLE = 1.7976931348623157e308
REPLICA_SELECTORS = (
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "org.apache.kafka.common.replica.LeaderSelector",
)


def _gzip_level(value: Any) -> str | None:
    return (
        None if value == -1 or 1 <= value <= 9 else "Value must be between 1 and 9 or equal to -1"
    )


def _kafka_version(value: Any) -> str | None:
    known = re.fullmatch(r"(0\.(8|9|10|11)|[1-4]\.\d+)(\.\d+)*(-IV\d+)?", value)
    return None if known else "is no version of Kafka"


def _rebalance_protocols(value: Any) -> str | None:
    known = one_of("consumer", "classic", "share", "streams", "unknown")(value)
    if known is None and "classic" not in value:
        return "Disabling the 'classic' protocol is not supported."
    return known


def _inter_broker_protocol(value: Any) -> str | None:
    try:
        InterBrokerProtocol.parse(value)
    except ValueError as error:
        return str(error)
    return None


# Kafka's authorizer of ZooKeeper clusters, under both names that it has had.
ACL_AUTHORIZERS = (
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
# Keys that Kafka's table does not have, and that the authorizer reads. As in Kafka, DescribeConfigs
# hides their values.
SUPER_USERS = "super.users"
ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"
FREE_BROKER_SETTINGS: Mapping[str, str] = {
    SUPER_USERS: "Principals that may do everything, separated by semicolons: User:a;User:CN=b,O=c.",
    ALLOW_EVERYONE: "Whether everybody may use a resource without ACLs: true or false (the default).",
}
# Keys that begin so are for a plug-in, whose class is named by another key.
CREATE_TOPIC_POLICY = "create.topic.policy.class.name"
ALTER_CONFIG_POLICY = "alter.config.policy.class.name"
PLUGIN_KEYS: Mapping[str, str] = {
    "authorizer.": "authorizer.class.name",
    "create.topic.policy.": CREATE_TOPIC_POLICY,
    "alter.config.policy.": ALTER_CONFIG_POLICY,
}


def _is_java(value: str) -> bool:
    return value.startswith(("kafka.", "org.apache.kafka.", "io.confluent.", "com."))


def _authorizer_class(value: str) -> str | None:
    if _is_java(value) and value not in ACL_AUTHORIZERS:
        return f"Java classes are not loaded; there are {' and '.join(ACL_AUTHORIZERS)}"
    return None


def _policy_class(value: str) -> str | None:
    if _is_java(value):
        return "Java classes are not loaded, so the policy would not be applied"
    return None


def _throttled_replicas(value: Any) -> str | None:
    """Kafka's ``ThrottledReplicaListValidator``."""
    if value == ("*",) or all(re.fullmatch(r"[0-9]+:[0-9]+", item) for item in value):
        return None
    return (
        "must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


_bool = row_of(ConfigType.BOOLEAN)
_string = row_of(ConfigType.STRING)
_int = row_of(ConfigType.INT)
_short = row_of(ConfigType.SHORT)
_long = row_of(ConfigType.LONG)
_double = row_of(ConfigType.DOUBLE)
_list = row_of(ConfigType.LIST)
_comma_separated = row_of(ConfigType.COMMA_SEPARATED)
_class = row_of(ConfigType.CLASS)
_password = row_of(ConfigType.PASSWORD)

# fmt: off
BROKER_SETTINGS: tuple[Setting, ...] = (
    # -- ZooKeeper
    _string("zookeeper.connect", REQUIRED, "ZooKeeper servers, host:port,... with an optional chroot at the end.", non_empty),
    _int("zookeeper.session.timeout.ms", 18000, "ZooKeeper drops this broker after so long without a sign of life."),
    _int("zookeeper.connection.timeout.ms", None, "Longest wait for the first connection to ZooKeeper; the session time-out if unset."),
    # -- identity and listeners
    _int("broker.id", -1, "Id of this broker; -1 has one generated above reserved.broker.max.id."),
    _bool("broker.id.generation.enable", True, "Allow ids to be generated when broker.id is -1."),
    _int("reserved.broker.max.id", 1000, "Largest id that can be given by broker.id.", at_least(0)),
    _string("broker.rack", None, "Rack of this broker, for rack-aware placement."),
    _comma_separated("listeners", ("PLAINTEXT://localhost:9092",), "Where to listen: NAME://host:port,... An empty host is every interface. Without the key only this machine reaches the broker.", non_empty),
    _comma_separated("advertised.listeners", None, "Addresses that clients and brokers connect to; the listeners if unset."),
    _comma_separated("listener.security.protocol.map", ("SASL_SSL:SASL_SSL", "PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT"), "Security protocol of each listener name."),
    _string("inter.broker.listener.name", None, "Listener that brokers use among themselves."),
    _string(CONTROL_PLANE, None, "Listener on which the controller sends its requests, so that clients cannot delay them; the one that brokers use among themselves if unset."),
    _string("security.inter.broker.protocol", "PLAINTEXT", "The inter-broker listener is the one with this name, if inter.broker.listener.name is not set.", one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    # -- authorization
    _string("authorizer.class.name", "", "Who decides what clients may do: kafka.security.authorizer.AclAuthorizer (ACLs in ZooKeeper), or a class of yours, package.module.Class or package.module:Class, in Python. Everybody may do everything if it is empty.", _authorizer_class),
    # -- delegation tokens
    _password("delegation.token.secret.key", None, "Secret with which tokens are signed, the same on all brokers; without it there are no tokens."),
    _password("delegation.token.master.key", None, "Older name of delegation.token.secret.key."),
    _long("delegation.token.max.lifetime.ms", 604800000, "Longest life of a token, however often it is renewed.", at_least(1)),
    _long("delegation.token.expiry.time.ms", 86400000, "Life of a token that is not renewed.", at_least(1)),
    _long("delegation.token.expiry.check.interval.ms", 3600000, "Pause between two removals of expired tokens, by the controller.", at_least(1)),
    # -- policies
    _class(CREATE_TOPIC_POLICY, None, "Class that may refuse new topics: package.module.Class or package.module:Class, in Python.", _policy_class),
    _class(ALTER_CONFIG_POLICY, None, "Class that may refuse configurations of topics and brokers, likewise.", _policy_class),
    # -- passwords in ZooKeeper
    _string("password.encoder.cipher.algorithm", "AES/CBC/PKCS5Padding", "Cipher of passwords that are stored in ZooKeeper: AES/CBC/PKCS5Padding or AES/GCM/NoPadding."),
    _int("password.encoder.iterations", 4096, "Iterations when the key of that cipher is derived.", at_least(1024)),
    _int("password.encoder.key.length", 128, "Bits of that key: 128, 192 or 256.", at_least(8)),
    _string("password.encoder.keyfactory.algorithm", None, "Algorithm that derives that key; PBKDF2WithHmacSHA512 if unset."),
    _password("password.encoder.old.secret", None, "Secret before the last change of password.encoder.secret. Passwords that it decrypts are encrypted with the new one when the broker starts."),
    _password("password.encoder.secret", None, "Secret with which passwords in ZooKeeper are encrypted. Without it no password can be altered while the broker runs."),
    # -- connections
    _int("socket.request.max.bytes", 100 * 1024 * 1024, "Largest request that is read.", at_least(1)),
    _long("connections.max.idle.ms", 10 * 60 * 1000, "Idle connections are closed after so long; -1 never."),
    _int("max.connections", MAX_INT, "Most connections at a time of each listener, and of all together except those of a listener for brokers alone; and at most half of the descriptors that the system grants (ulimit -n).", at_least(0)),
    _int("max.connections.per.ip", MAX_INT, "Most connections from one address; 0 only if there are overrides.", at_least(0)),
    _string("max.connections.per.ip.overrides", "", "Other limits for single hosts: host:count,... A host name is resolved when the broker starts and when the value changes.", connection_overrides_problem),
    _int("max.connection.creation.rate", MAX_INT, "Most new connections a second of each listener, and of all together except a listener for brokers alone.", at_least(0)),
    _int("quota.window.num", 11, "Windows that count for the rates of clients' quotas and of new connections.", at_least(1)),
    _int("quota.window.size.seconds", 1, "Length of each.", at_least(1)),
    _int("controller.quota.window.num", 11, "Windows whose mutations a client may do at once under controller_mutation_rate.", at_least(1)),
    _int("controller.quota.window.size.seconds", 1, "Length of each.", at_least(1)),
    _int("queued.max.requests", 500, "Most requests of one connection being worked on; reading pauses above.", at_least(1)),
    _long("queued.max.request.bytes", -1, "Most bytes of unanswered requests of all connections; above, a connection that has one is not read. Unlimited if 0 or less."),
    _long("client.memory.max.bytes", 512 * 1024 * 1024, "Most bytes that clients make the broker hold: requests under way or unanswered, responses not taken, parked fetches and fetch sessions together. Above, connections wait, large requests are received one after the other, responses are smaller, large parked fetches complete early. Unlimited if 0 or less. Not a key of Kafka's."),
    _string(DEBUG_LISTENER, None, "Where to show purgatories, tasks and metrics as JSON, HTTP://127.0.0.1:port: loopback only, since there is no login. Port 0: the system chooses one, which DescribeConfigs returns. Off if unset. Not a key of Kafka's.", debug_listener_problem),
    _string(METRICS_LISTENER, None, "Where Prometheus reads metrics, at /metrics: HTTP://127.0.0.1:port. Without a login, so that another interface than the loopback has to be named. Off if unset. Not a key of Kafka's.", metrics_listener_problem),
    _int("event.loop.stall.threshold.ms", 100, "A stall of the event loop of so long or longer is logged as loop_stalled, with the request that ran then. Not a key of Kafka's.", at_least(2)),
    # -- topics
    _int("num.partitions", 1, "Partitions of a topic created without a number.", at_least(1)),
    _int("max.partitions.per.topic", 10000, "Most partitions that a request may give a topic; more are refused with INVALID_PARTITIONS. Not a key of Kafka's.", at_least(1)),
    _int("default.replication.factor", 1, "Replicas of a topic created without a number.", at_least(1)),
    _bool("auto.create.topics.enable", True, "Create a topic when a client asks for one that is missing."),
    _bool("delete.topic.enable", True, "Allow topics to be deleted."),
    _int("min.insync.replicas", 1, "Least ISR size for which acks=all is accepted.", at_least(1)),
    _bool("unclean.leader.election.enable", False, "Let a replica outside the ISR lead when no other is alive; may lose data."),
    # -- log
    _string("log.dir", "/tmp/kafka-logs", "Directory of the log data, if log.dirs is not set."),
    _comma_separated("log.dirs", None, "Directories of the log data."),
    _int("log.segment.bytes", 1024 * 1024 * 1024, "Size at which a new segment is rolled.", at_least(14)),
    _long("log.roll.ms", None, "Age at which a new segment is rolled; log.roll.hours if unset.", at_least(1)),
    _int("log.roll.hours", 168, "As log.roll.ms, in hours.", at_least(1)),
    _long("log.roll.jitter.ms", None, "Up to so much is taken off that age, so that not all logs roll at once; log.roll.jitter.hours if unset.", at_least(0)),
    _int("log.roll.jitter.hours", 0, "As log.roll.jitter.ms, in hours.", at_least(0)),
    _list("log.cleanup.policy", ("delete",), "What happens to old data.", one_of("compact", "delete")),
    _long("log.retention.bytes", -1, "Most bytes a partition keeps; negative for no limit."),
    _long("log.retention.ms", None, "How long a partition keeps data, negative for ever; log.retention.minutes if unset."),
    _int("log.retention.minutes", None, "As log.retention.ms, in minutes; log.retention.hours if unset."),
    _int("log.retention.hours", 168, "As log.retention.ms, in hours."),
    _long("log.retention.check.interval.ms", 300000, "How often retention looks for what may go.", at_least(1)),
    _long("log.initial.task.delay.ms", 30000, "Pause after the start before retention, flushes and checkpoints run for the first time.", at_least(0), internal=True),
    _string("compression.type", "producer", "Codec in which batches are stored.", one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    _int("compression.gzip.level", -1, "Level when recompressing with gzip; -1 is gzip's own default.", _gzip_level),
    _int("compression.lz4.level", 9, "Level when recompressing with lz4.", between(1, 17)),
    _int("compression.zstd.level", 3, "Level when recompressing with zstd.", between(-131072, 22)),
    _int("log.index.interval.bytes", 4096, "Bytes between two entries of the offset index.", at_least(0)),
    _int("log.index.size.max.bytes", 10 * 1024 * 1024, "Largest index file.", at_least(4)),
    _int("message.max.bytes", 1024 * 1024 + 12, "Largest record batch accepted.", at_least(0)),
    _string("log.message.timestamp.type", "CreateTime", "Whose clock stamps records.", one_of("CreateTime", "LogAppendTime")),
    _bool("log.message.downconversion.enable", True, "Serve consumers of record formats before Kafka 0.11."),
    _string("log.message.format.version", "3.0-IV1", "Kept for old files: logs hold record batches (magic 2) alone, as with Kafka's inter.broker.protocol.version from 3.0 on.", _kafka_version, (), False),
    _string("inter.broker.protocol.version", "3.9-IV0", "The protocol that the broker speaks to other brokers and to ZooKeeper, 2.0-IV0 to 3.9-IV0 (2.8 is the last of 2.8): versions of requests, records and znodes, topic ids, features. As long as brokers of an older version are in the cluster it must be theirs. 2.0 also makes a broker serve clients as Kafka 2.0 did: keys 0 to 42 in the versions of that release.", _inter_broker_protocol),
    _long("log.message.timestamp.difference.max.ms", MAX_LONG, "Deprecated: stands in for the two keys below where they are not set.", at_least(0)),
    _long("log.message.timestamp.before.max.ms", MAX_LONG, "How far behind the broker's clock a record may be.", at_least(0)),
    _long("log.message.timestamp.after.max.ms", MAX_LONG, "How far ahead of the broker's clock a record may be.", at_least(0)),
    _long("log.flush.interval.messages", MAX_LONG, "Records after which a partition is flushed, before they are acknowledged.", at_least(1)),
    _long("log.flush.interval.ms", None, "Longest time a record may be unflushed; log.flush.scheduler.interval.ms if unset."),
    _long("log.flush.scheduler.interval.ms", MAX_LONG, "How often it is looked for logs to flush by time."),
    _int("log.flush.offset.checkpoint.interval.ms", 60000, "How often recovery points are written.", at_least(0)),
    _int("log.flush.start.offset.checkpoint.interval.ms", 60000, "How often log start offsets are written.", at_least(0)),
    _int("producer.id.expiration.ms", 86400000, "How long an idempotent producer may be silent before its sequence numbers are forgotten.", at_least(1)),
    _int("producer.id.expiration.check.interval.ms", 600000, "How often that is looked at.", at_least(1), internal=True),
    _long("log.segment.delete.delay.ms", 60000, "Pause before the files of a deleted segment or partition are removed.", at_least(0)),
    _bool("log.cleaner.enable", True, "Compact the topics whose cleanup.policy says so."),
    _int("log.cleaner.threads", 1, "Logs compacted at the same time, turn by turn.", at_least(0)),
    _double("log.cleaner.io.max.bytes.per.second", MAX_DOUBLE, "Most bytes a second that compaction reads and writes."),
    _long("log.cleaner.dedupe.buffer.size", 128 * 1024 * 1024, "Memory for the keys of the logs being compacted, 24 bytes a key.", at_least(0)),
    _int("log.cleaner.io.buffer.size", 512 * 1024, "Memory for reading and writing while compacting.", at_least(0)),
    _double("log.cleaner.io.buffer.load.factor", 0.9, "How full the table of keys may become.", between(0, 1)),
    _long("log.cleaner.backoff.ms", 15000, "Pause when there is nothing to compact.", at_least(0)),
    _double("log.cleaner.min.cleanable.ratio", 0.5, "Share of dirty log that starts compaction.", between(0, 1)),
    _long("log.cleaner.delete.retention.ms", 86400000, "How long tombstones stay.", at_least(0)),
    _long("log.cleaner.min.compaction.lag.ms", 0, "Least age before compaction.", at_least(0)),
    _long("log.cleaner.max.compaction.lag.ms", MAX_LONG, "Longest time before compaction.", at_least(1)),
    _long("log.scrubber.bytes.per.second", 0, "Bytes a second that are read from sealed segments to find damaged batches, which are then fetched from another replica; 0 for none. Not a key of Kafka's.", at_least(0)),
    _long("log.scrubber.interval.ms", 86400000, "Pause after all sealed segments have been read. Not a key of Kafka's.", at_least(1)),
    _int("num.replica.alter.log.dirs.threads", None, "Logs moved to another log directory at the same time; as many as there are directories if unset.", at_least(1)),
    _int("num.recovery.threads.per.data.dir", 1, "Logs recovered at the same time.", at_least(1)),
    # -- replication
    _long("replica.lag.time.max.ms", 30000, "A follower that has not caught up for so long leaves the ISR."),
    _int("replica.fetch.max.bytes", 1024 * 1024, "Bytes a follower asks for per partition.", at_least(0)),
    _int("replica.fetch.response.max.bytes", 10 * 1024 * 1024, "Bytes a follower asks for per request.", at_least(0)),
    _int("replica.fetch.min.bytes", 1, "Least bytes for which a follower's fetch is answered early."),
    _int("replica.fetch.wait.max.ms", 500, "Longest wait of a follower's fetch."),
    _int("replica.fetch.backoff.ms", 1000, "Pause of a partition after a fetch error.", at_least(0)),
    _int("replica.socket.timeout.ms", 30000, "Time-out of requests between brokers."),
    _long("replica.high.watermark.checkpoint.interval.ms", 5000, "How often high watermarks are written."),
    _int("num.replica.fetchers", 1, "Connections over which a broker copies from another.", at_least(1)),
    _string("replica.selector.class", None, "Who sends consumers to the replicas of their rack; none: all read from leaders.", one_of(*REPLICA_SELECTORS)),
    _int("replication.quota.window.num", 11, "Windows that count for the rates of throttled replication.", at_least(1)),
    _int("replication.quota.window.size.seconds", 1, "Length of each.", at_least(1)),
    _int("alter.log.dirs.replication.quota.window.num", 11, "As replication.quota.window.num, for moves between log directories.", at_least(1)),
    _int("alter.log.dirs.replication.quota.window.size.seconds", 1, "Length of each.", at_least(1)),
    # -- requests that wait
    _int("fetch.max.bytes", 55 * 1024 * 1024, "Most bytes answered to one fetch.", at_least(1024)),
    _int("max.incremental.fetch.session.cache.slots", 1000, "Most fetch sessions that are kept.", at_least(0)),
    _int("telemetry.max.bytes", 1024 * 1024, "Most bytes of metrics in one push of a client, compressed.", at_least(1)),
    _int("max.request.partition.size.limit", 2000, "Most partitions in one DescribeTopicPartitions response.", at_least(1)),
    _int("fetch.purgatory.purge.interval.requests", 1000, "Completed fetches kept before watcher lists are purged."),
    _int("delete.records.purgatory.purge.interval.requests", 1, "Completed deletions kept before watcher lists are purged."),
    _int("producer.purgatory.purge.interval.requests", 1000, "Completed produces kept before watcher lists are purged."),
    _int("share.fetch.purgatory.purge.interval.requests", 1000, "Completed share fetches kept before watcher lists are purged."),
    # -- groups
    _int("group.min.session.timeout.ms", 6000, "Shortest session time-out that a member may ask for."),
    _int("group.max.session.timeout.ms", 1800000, "Longest session time-out that a member may ask for."),
    _int("group.initial.rebalance.delay.ms", 3000, "How long an empty group waits for more members after the first."),
    _int("group.max.size", MAX_INT, "Most members of a group.", at_least(1)),
    _list("group.consumer.assignors", ("org.apache.kafka.coordinator.group.assignor.UniformAssignor", "org.apache.kafka.coordinator.group.assignor.RangeAssignor"), "Assignors of the broker, the default first."),
    _int("group.consumer.heartbeat.interval.ms", 5000, "Heartbeat interval of a consumer group's members.", at_least(1)),
    _int("group.consumer.max.heartbeat.interval.ms", 15000, "Largest heartbeat interval that a consumer group may have.", at_least(1)),
    _int("group.consumer.max.session.timeout.ms", 60000, "Longest session time-out that a consumer group may have.", at_least(1)),
    _int("group.consumer.max.size", MAX_INT, "Most members of a consumer group.", at_least(1)),
    _string("group.consumer.migration.policy", "bidirectional", "Which groups with members change their protocol: classic groups become consumer groups (upgrade) when a member of that protocol joins, consumer groups become classic ones (downgrade) when the last one has left.", one_of("disabled", "downgrade", "upgrade", "bidirectional"), internal=True),
    _int("group.consumer.min.heartbeat.interval.ms", 5000, "Smallest heartbeat interval that a consumer group may have.", at_least(1)),
    _int("group.consumer.min.session.timeout.ms", 45000, "Shortest session time-out that a consumer group may have.", at_least(1)),
    _int("group.consumer.session.timeout.ms", 45000, "Session time-out of a consumer group's members.", at_least(1)),
    _list("group.coordinator.rebalance.protocols", ("classic", "consumer", "share", "streams"), "Protocols by which groups may be rebalanced. With consumer this broker supports the feature group.version, with share share.version, with streams streams.version; the first controller of a new cluster puts them in force. With classic alone brokers of Apache Kafka 3.9 can join: they know no feature, and end beside one that is in force.", _rebalance_protocols),
    _list("group.share.assignors", ("simple",), "Assignor of share groups: simple, also by the name of its Java class."),
    _int("group.share.delivery.count.limit", 5, "How often a record is delivered at most.", between(2, 10)),
    _int("group.share.heartbeat.interval.ms", 5000, "Heartbeat interval of a share group's members.", at_least(1)),
    _int("group.share.initialize.retry.interval.ms", 30000, "How long a share coordinator may take to make the state of a share-partition before it is asked again; at least offsets.commit.timeout.ms.", at_least(1), internal=True),
    _int("group.share.max.heartbeat.interval.ms", 15000, "Largest heartbeat interval that a share group may have.", at_least(1)),
    _int("group.share.max.record.lock.duration.ms", 60000, "Longest time for which a share group may acquire records.", between(30000, 3600000)),
    _int("group.share.max.share.sessions", 2000, "Most share sessions of a broker: one for each member of a share group that fetches from it.", at_least(1)),
    _int("group.share.max.session.timeout.ms", 60000, "Longest session time-out that a share group may have.", at_least(1)),
    _int("group.share.max.size", 200, "Most members of a share group.", between(1, 1000)),
    _int("group.share.min.heartbeat.interval.ms", 5000, "Smallest heartbeat interval that a share group may have.", at_least(1)),
    _int("group.share.min.record.lock.duration.ms", 15000, "Shortest time for which a share group may acquire records.", between(1000, 30000)),
    _int("group.share.min.session.timeout.ms", 45000, "Shortest session time-out that a share group may have.", at_least(1)),
    _int("group.share.partition.max.record.locks", 2000, "Most records of a partition that a share group may have in flight.", between(100, 10000)),
    _int("group.share.record.lock.duration.ms", 30000, "How long a share group acquires records.", between(1000, 3600000)),
    _int("group.share.session.timeout.ms", 45000, "Session time-out of a share group's members.", at_least(1)),
    _int("group.streams.heartbeat.interval.ms", 5000, "Heartbeat interval of a streams group's members.", at_least(1)),
    _int("group.streams.initial.rebalance.delay.ms", 3000, "How long an empty streams group waits for more members after the first.", at_least(0)),
    _int("group.streams.max.heartbeat.interval.ms", 15000, "Largest heartbeat interval that a streams group may have.", at_least(1)),
    _int("group.streams.max.session.timeout.ms", 60000, "Longest session time-out that a streams group may have.", at_least(1)),
    _int("group.streams.max.size", MAX_INT, "Most members of a streams group.", at_least(1)),
    _int("group.streams.max.standby.replicas", 2, "Most standby tasks for each task that a streams group may have.", at_least(0)),
    _int("group.streams.min.heartbeat.interval.ms", 5000, "Smallest heartbeat interval that a streams group may have.", at_least(1)),
    _int("group.streams.min.session.timeout.ms", 45000, "Shortest session time-out that a streams group may have.", at_least(1)),
    _int("group.streams.num.standby.replicas", 0, "Standby tasks for each task with state of a streams group.", at_least(0)),
    _int("group.streams.session.timeout.ms", 45000, "Session time-out of a streams group's members.", at_least(1)),
    _int("offset.metadata.max.bytes", 4096, "Longest text that may be committed with an offset."),
    _int("offsets.commit.timeout.ms", 5000, "How long a commit waits for the replicas of the offsets topic.", at_least(1)),
    _int("offsets.load.buffer.size", 5 * 1024 * 1024, "Bytes read at a time when groups are loaded.", at_least(1)),
    _int("offsets.retention.minutes", 7 * 24 * 60, "How long offsets are kept after the group has become empty.", at_least(1)),
    _long("offsets.retention.check.interval.ms", 600000, "How often it is looked for offsets to delete.", at_least(1)),
    _int("offsets.topic.num.partitions", 50, "Partitions of the offsets topic, when it is created.", at_least(1)),
    _short("offsets.topic.replication.factor", 3, "Replicas of the offsets topic: at first no more than brokers are alive, the others when brokers come.", at_least(1)),
    _int("offsets.topic.segment.bytes", 100 * 1024 * 1024, "Segment size of the offsets topic, when it is created.", at_least(1)),
    _int("offsets.topic.compression.codec", 0, "Codec in which groups and offsets are stored: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.", between(0, 4)),
    # -- transactions
    _int("transaction.max.timeout.ms", 900000, "Longest time-out that a transactional producer may ask for.", at_least(1)),
    _int("transactional.id.expiration.ms", 604800000, "How long an unused transactional id is kept.", at_least(1)),
    _bool("transaction.partition.verification.enable", True, "Ask the coordinator before a transaction begins in a partition (KIP-890).", None),
    _int("add.partitions.to.txn.retry.backoff.ms", 20, "Pause before a broker tries again to add partitions to a transaction (KIP-890).", at_least(1)),
    _int("add.partitions.to.txn.retry.backoff.max.ms", 100, "How long a broker tries again to add partitions to a transaction (KIP-890).", at_least(0)),
    _int("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10000, "How often it is looked for transactions that are open for too long.", at_least(1)),
    _int("transaction.remove.expired.transaction.cleanup.interval.ms", 3600000, "How often it is looked for transactional ids to delete.", at_least(1)),
    _int("transaction.state.log.num.partitions", 50, "Partitions of the transaction topic, when it is created.", at_least(1)),
    _short("transaction.state.log.replication.factor", 3, "Replicas of the transaction topic: at first no more than brokers are alive, the others when brokers come.", at_least(1)),
    _int("transaction.state.log.min.isr", 2, "min.insync.replicas of the transaction topic, when it is created.", at_least(1)),
    _int("transaction.state.log.segment.bytes", 100 * 1024 * 1024, "Segment size of the transaction topic, when it is created.", at_least(1)),
    _int("transaction.state.log.load.buffer.size", 5 * 1024 * 1024, "Bytes read at a time when transactions are loaded.", at_least(1)),
    # -- share groups
    _int("share.coordinator.state.topic.num.partitions", 50, "Partitions of the share-group state topic, when it is created.", at_least(1)),
    _short("share.coordinator.state.topic.replication.factor", 3, "Replicas of the share-group state topic: at first no more than brokers are alive, the others when brokers come.", at_least(1)),
    _short("share.coordinator.state.topic.min.isr", 2, "min.insync.replicas of the share-group state topic, when it is created.", at_least(1)),
    _int("share.coordinator.state.topic.segment.bytes", 100 * 1024 * 1024, "Segment size of the share-group state topic, when it is created.", at_least(1)),
    _int("share.coordinator.state.topic.compression.codec", 0, "Codec in which states of share-partitions are stored: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.", between(0, 4)),
    _int("share.coordinator.state.topic.prune.interval.ms", 300000, "How often records of that topic that no state needs are deleted.", at_least(1), internal=True),
    _int("share.coordinator.snapshot.update.records.per.snapshot", 500, "Changes of a share-partition's state that are written between two snapshots of it.", between(0, 500)),
    _int("share.coordinator.cold.partition.snapshot.interval.ms", 300000, "Age at which the snapshot of a state without changes is written again.", at_least(1), internal=True),
    _int("share.coordinator.load.buffer.size", 5 * 1024 * 1024, "Bytes read at a time when states of share-partitions are loaded.", at_least(1)),
    _int("share.coordinator.write.timeout.ms", 5000, "How long a change of a state waits for the replicas of the share-group state topic.", at_least(1)),
    # -- controller
    _int("controller.socket.timeout.ms", 30000, "Time-out of the controller's requests to brokers."),
    _bool("auto.leader.rebalance.enable", True, "Give leaderships back to preferred replicas when too many are elsewhere."),
    _int("leader.imbalance.per.broker.percentage", 10, "How many of the partitions that a broker should lead may be led by others."),
    _long("leader.imbalance.check.interval.seconds", 300, "How often that is looked at.", at_least(1)),
    _bool("minikafka.fast.failover", True, "Take a broker for dead as soon as its connection has ended and all its listeners refuse new ones, instead of waiting for the end of its session. Set it to false where something else may refuse connections for a broker that is alive. Not a key of Kafka's."),
    _bool("controlled.shutdown.enable", True, "Move leaders away before stopping."),
    _int("controlled.shutdown.max.retries", 3, "Attempts at a controlled shutdown.", at_least(0)),
    _long("controlled.shutdown.retry.backoff.ms", 5000, "Pause between those attempts.", at_least(0)),
)

# What decides a topic's shape on disk and in flight; the synonym is the broker key of its default.
TOPIC_SETTINGS: tuple[Setting, ...] = (
    _list("cleanup.policy", ("delete",), "What happens to old data.", one_of("compact", "delete"), ("log.cleanup.policy",)),
    _string("compression.type", "producer", "Codec in which batches are stored.", one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), ("compression.type",)),
    _int("compression.gzip.level", -1, "Level when recompressing with gzip; -1 is gzip's own default.", _gzip_level, ("compression.gzip.level",)),
    _int("compression.lz4.level", 9, "Level when recompressing with lz4.", between(1, 17), ("compression.lz4.level",)),
    _int("compression.zstd.level", 3, "Level when recompressing with zstd.", between(-131072, 22), ("compression.zstd.level",)),
    _long("delete.retention.ms", 86400000, "How long tombstones stay.", at_least(0), ("log.cleaner.delete.retention.ms",)),
    _long("file.delete.delay.ms", 60000, "Pause before a deleted file is removed.", at_least(0), ("log.segment.delete.delay.ms",)),
    _long("flush.messages", MAX_LONG, "Records between two forced flushes.", at_least(1), ("log.flush.interval.messages",)),
    _long("flush.ms", MAX_LONG, "Time between two forced flushes.", at_least(0), ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")),
    _list("follower.replication.throttled.replicas", (), "Replicas throttled as followers, while out of sync, to follower.replication.throttled.rate: partition:broker,... or * for all.", _throttled_replicas),
    _int("index.interval.bytes", 4096, "Bytes between two entries of the offset index.", at_least(0), ("log.index.interval.bytes",)),
    _list("leader.replication.throttled.replicas", (), "Replicas throttled as leaders, while out of sync, to leader.replication.throttled.rate: partition:broker,... or * for all.", _throttled_replicas),
    _long("local.retention.bytes", -2, "Tiered storage is not part of this broker.", at_least(-2), ("log.local.retention.bytes",), False),
    _long("local.retention.ms", -2, "Tiered storage is not part of this broker.", at_least(-2), ("log.local.retention.ms",), False),
    _long("max.compaction.lag.ms", MAX_LONG, "Longest time before compaction.", at_least(1), ("log.cleaner.max.compaction.lag.ms",)),
    _int("max.message.bytes", 1024 * 1024 + 12, "Largest record batch accepted.", at_least(0), ("message.max.bytes",)),
    _bool("message.downconversion.enable", True, "Serve consumers of record formats before Kafka 0.11.", None, ("log.message.downconversion.enable",)),
    _string("message.format.version", "3.0-IV1", "Kept for old tools: logs hold record batches (magic 2) alone.", _kafka_version, ("log.message.format.version",), False),
    _long("message.timestamp.after.max.ms", MAX_LONG, "How far ahead of the broker's clock a record may be.", at_least(0), ("log.message.timestamp.after.max.ms",)),
    _long("message.timestamp.before.max.ms", MAX_LONG, "How far behind the broker's clock a record may be.", at_least(0), ("log.message.timestamp.before.max.ms",)),
    _long("message.timestamp.difference.max.ms", MAX_LONG, "Deprecated: stands in for before and after where they are not set.", at_least(0), ("log.message.timestamp.difference.max.ms",)),
    _string("message.timestamp.type", "CreateTime", "Whose clock stamps records.", one_of("CreateTime", "LogAppendTime"), ("log.message.timestamp.type",)),
    _double("min.cleanable.dirty.ratio", 0.5, "Share of dirty log that starts compaction.", between(0, 1), ("log.cleaner.min.cleanable.ratio",)),
    _long("min.compaction.lag.ms", 0, "Least age before compaction.", at_least(0), ("log.cleaner.min.compaction.lag.ms",)),
    _int("min.insync.replicas", 1, "Least ISR size for which acks=all is accepted.", at_least(1), ("min.insync.replicas",)),
    _bool("preallocate", False, "Segment files grow as records are appended.", None, ("log.preallocate",), False),
    _bool("remote.log.copy.disable", False, "Tiered storage is not part of this broker.", None, (), False),
    _bool("remote.log.delete.on.disable", False, "Tiered storage is not part of this broker.", None, (), False),
    _bool("remote.storage.enable", False, "Tiered storage is not part of this broker.", lambda v: "tiered storage is not supported" if v else None, (), False),
    _long("retention.bytes", -1, "Most bytes a partition keeps; negative for no limit.", None, ("log.retention.bytes",)),
    _long("retention.ms", 604800000, "How long a partition keeps data.", at_least(-1), ("log.retention.ms", "log.retention.minutes", "log.retention.hours")),
    _int("segment.bytes", 1024 * 1024 * 1024, "Size at which a new segment is rolled.", at_least(14), ("log.segment.bytes",)),
    _int("segment.index.bytes", 10 * 1024 * 1024, "Largest index file.", at_least(4), ("log.index.size.max.bytes",)),
    _long("segment.jitter.ms", 0, "Random part taken off segment.ms.", at_least(0), ("log.roll.jitter.ms", "log.roll.jitter.hours")),
    _long("segment.ms", 604800000, "Age at which a new segment is rolled.", at_least(1), ("log.roll.ms", "log.roll.hours")),
    _bool("unclean.leader.election.enable", False, "Let a replica outside the ISR lead when no other is alive; may lose data.", None, ("unclean.leader.election.enable",)),
)
# fmt: on


def _together(values: Mapping[str, Any]) -> str | None:
    """Return why settings do not go together; None if they do."""
    if values["max.connections.per.ip"] == 0 and not values["max.connections.per.ip.overrides"]:
        return (
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides"
            " property is set."
        )
    retention = (values[f"log.retention.{unit}"] for unit in ("ms", "minutes", "hours"))
    if next(value for value in retention if value is not None) == 0:
        return "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    delay, idle = "connection.failed.authentication.delay.ms", "connections.max.idle.ms"
    if 0 <= values[idle] <= values[delay]:
        return (
            f"{delay}={values[delay]} should always be less than {idle}={values[idle]} to prevent "
            "failed authentication responses from timing out"
        )
    return group_times_problem(values)


BROKER_CONFIG = ConfigDef.of(
    (
        *BROKER_SETTINGS,
        *ZOOKEEPER_SECURITY_SETTINGS,
        *TLS_SETTINGS,
        *SASL_SETTINGS,
        *INEFFECTIVE_SETTINGS,
        *REFUSED_SETTINGS,
    ),
    IGNORED_BROKER_SETTINGS,
    ignored_prefixes=tuple(IGNORED_BROKER_PREFIXES),
    refused=REFUSED_BROKER_SETTINGS,
    free=tuple(FREE_BROKER_SETTINGS),
    plugin_keys=PLUGIN_KEYS,
    together=_together,
    of_listeners=(*TLS_SETTINGS, *SASL_SETTINGS_OF_LISTENERS, *LIMITS_OF_LISTENERS),
)
TOPIC_CONFIG = ConfigDef.of(TOPIC_SETTINGS)


def topic_defaults(broker: Config) -> dict[str, Any]:
    """The default of each topic setting in a broker's configuration, by topic key."""
    defaults: dict[str, Any] = {}
    for row in TOPIC_SETTINGS:
        given = next((s for s in row.synonyms if s in broker.given), None)
        defaults[row.name] = (
            row.default if given is None else row.parse_synonym(given, broker.given[given])
        )
    return defaults
