"""The `minikafka` command: find and run the verb, and report an error in one line."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, Protocol

from minikafka.cli import standard_streams
from minikafka.cli.usage import KAFKA_FORMS, WrongUsage, is_kafka_form, translate
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.extras import MissingExtraError
from minikafka.kernel.lazy_module import LazyModule
from minikafka.kernel.spelling import did_you_mean

if TYPE_CHECKING:
    import argparse
    from importlib import metadata

    from minikafka.cli import verb_parser
    from minikafka.core.client import errors
    from minikafka.kernel import ports
else:
    metadata = LazyModule("importlib.metadata")
    errors = LazyModule("minikafka.core.client.errors")
    ports = LazyModule("minikafka.kernel.ports")
    verb_parser = LazyModule("minikafka.cli.verb_parser")

VERBS = {
    "up": (
        "minikafka.cli.processes.up",
        "run a whole cluster in the foreground: ZooKeeper and N brokers",
    ),
    "ui": ("minikafka.cli.processes.ui", "show what happens inside a cluster, in a browser"),
    "learn": (
        "minikafka.cli.processes.learn",
        "play, stop, rewind and break a simulated cluster, in a browser",
    ),
    "registry": (
        "minikafka.cli.processes.registry",
        "run a schema registry, which stores its schemas in a topic",
    ),
    "schemas": (
        "minikafka.cli.cluster.schemas",
        "list, show, check, register and delete schemas of a registry",
    ),
    "fake": (
        "minikafka.cli.processes.fake",
        "run brokers for tests in one process, with faults over HTTP",
    ),
    "faults": (
        "minikafka.cli.processes.faults",
        "run a proxy in front of any Kafka, with faults over HTTP",
    ),
    "broker": ("minikafka.cli.processes.broker", "run one broker in the foreground"),
    "secure": (
        "minikafka.cli.processes.secure",
        "make keys, users and client configurations for a secured cluster",
    ),
    "stop": (
        "minikafka.cli.processes.stop",
        "stop a broker on this machine by controlled shutdown",
    ),
    "zookeeper": ("minikafka.cli.processes.zookeeper", "run a ZooKeeper server in the foreground"),
    "zookeeper-security": (
        "minikafka.cli.cluster.zookeeper_security",
        "give existing znodes the ACLs of zookeeper.set.acl, or open them",
    ),
    "topics": ("minikafka.cli.cluster.topics", "create, list, describe, alter and delete topics"),
    "configs": (
        "minikafka.cli.cluster.configs",
        "show and alter settings of topics, brokers and brokers' loggers",
    ),
    "client-metrics": (
        "minikafka.cli.cluster.client_metrics",
        "show and alter which metrics clients push to the brokers",
    ),
    "acls": ("minikafka.cli.cluster.acls", "add, list and remove ACLs"),
    "users": (
        "minikafka.cli.cluster.users",
        "create, list, describe and delete users who log in with SCRAM",
    ),
    "tokens": (
        "minikafka.cli.cluster.tokens",
        "create, renew, expire and describe delegation tokens",
    ),
    "quotas": (
        "minikafka.cli.cluster.quotas",
        "show, set and remove limits of users, clients and addresses",
    ),
    "features": (
        "minikafka.cli.cluster.features",
        "show features of the cluster, and put them in force or remove them",
    ),
    "controller": ("minikafka.cli.cluster.controller", "show the state of the controller"),
    "reassign": ("minikafka.cli.cluster.reassign", "move partitions to other replicas"),
    "migrate": (
        "minikafka.cli.cluster.migrate",
        "plan and check a rolling migration between Kafka and minikafka",
    ),
    "elect-leaders": (
        "minikafka.cli.cluster.elect_leaders",
        "request preferred or unclean leader elections",
    ),
    "delete-records": (
        "minikafka.cli.cluster.delete_records",
        "delete the oldest records of partitions",
    ),
    "produce": ("minikafka.cli.records.produce", "send lines of standard input to a topic"),
    "consume": ("minikafka.cli.records.consume", "print the records of a topic"),
    "perf": (
        "minikafka.cli.records.perf",
        "measure rates and latencies of producing and consuming",
    ),
    "groups": (
        "minikafka.cli.groups.groups",
        "show consumer groups, reset or delete their offsets",
    ),
    "streams-groups": (
        "minikafka.cli.groups.streams_groups",
        "show the groups of Kafka Streams and their tasks, reset or delete their offsets",
    ),
    "share-groups": (
        "minikafka.cli.groups.share_groups",
        "show share groups, reset or delete their offsets",
    ),
    "transactions": (
        "minikafka.cli.groups.transactions",
        "show transactions, abort hanging ones",
    ),
    "verify": (
        "minikafka.cli.records.verify",
        "work with a cluster for a while, and report every promise that it breaks",
    ),
    "conformance": (
        "minikafka.cli.records.conformance",
        "try the wire rules that clients rely on, at any Kafka-compatible cluster",
    ),
    "pipeline": ("minikafka.cli.pipeline", "run Spark Declarative Pipelines over topics"),
    "debug": ("minikafka.cli.cluster.debug", "show the internal state of one broker"),
    "log-dirs": (
        "minikafka.cli.cluster.log_dirs",
        "show the replicas in the log directories of brokers",
    ),
    "dump-log": ("minikafka.cli.cluster.dump_log", "print the contents of log and index files"),
    "mcp": (
        "minikafka.cli.processes.mcp",
        "offer the verbs as tools to programs, by the Model Context Protocol",
    ),
    "doctor": (
        "minikafka.cli.processes.doctor",
        "check which Java, jars and packages would be used",
    ),
}
OK, FAILED, USAGE = 0, 1, 2
# Of codes that brokers send without a message.
MEANINGS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    ErrorCode.UNSUPPORTED_VERSION: "the brokers do not have this request, or not this form of it",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "the user may not do this with the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "the user may not do this with the group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the user may not do this with the cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the user may not use the transactional id",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "the user may not do this with the token",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "the brokers have no delegation.token.secret.key",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "it needs a login, and none by a token "
    "(--command-config)",
}


class Verb(Protocol):
    """The functions of a verb's module. ``run`` returns the exit status."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


def overview() -> str:
    lines = ["usage: minikafka VERB [options]     (minikafka VERB --help shows its options)", ""]
    lines += [f"  {verb:<14} {text}" for verb, (_, text) in VERBS.items()]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status: 0 success, 1 failure, 2 wrong usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    standard_streams.open_missing()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names and headers may contain any text. Characters that cannot be printed are escaped.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = _reported(lambda: _run(words))
    except SystemExit:  # of argparse: after --help, or an error
        if _reported(_flush) == OK:
            raise
        return FAILED
    return _reported(_flush) or status


def _flush() -> int:
    try:
        sys.stdout.flush()
    except OSError:
        standard_streams.drop_output()
        raise
    return OK


def _run(words: list[str]) -> int:
    """Run the verb and return its exit status. Raises the verb's errors, and argparse's
    SystemExit."""
    if not words:
        print(overview(), file=sys.stderr)
        return USAGE
    if words[0] in ("-h", "--help", "help"):
        print(overview())
        return OK
    if words[0] == "--version":
        print(f"minikafka {metadata.version('minikafka')}")
        return OK
    if words[0] not in VERBS:
        raise WrongUsage(f"unknown verb {words[0]}{did_you_mean(words[0], VERBS)}")
    given = translate(words[0], words[1:])
    module, text = VERBS[words[0]]
    verb: Verb = importlib.import_module(module)
    parser = verb_parser.VerbParser(
        prog=f"minikafka {words[0]}", description=text, epilog=KAFKA_FORMS.get(words[0])
    )
    verb.add_arguments(parser)
    args = parser.parse_args(given)
    # Scripts that use the options of Kafka's tools parse their layout, on a terminal too.
    raw = is_kafka_form(words[0], words[1:])
    with standard_streams.output_as_in_a_pipe() if raw else nullcontext():
        return verb.run(args)


def _reported(work: Callable[[], int]) -> int:
    """Run ``work`` and return its exit status. Print its error, if any, in one line."""
    try:
        return work()
    except KeyboardInterrupt:  # first: what the others name may have been interrupted half imported
        return FAILED
    except BrokenPipeError:  # the reader of the pipe has ended, as `| head -1` does
        return FAILED
    except WrongUsage as error:
        print(f"minikafka: {error}", file=sys.stderr)
        return USAGE
    except UnicodeDecodeError as error:
        print(f"minikafka: a file is not UTF-8: {error}", file=sys.stderr)
        return FAILED
    except (
        ConfigError,
        KafkaError,
        MissingExtraError,
        ports.CoordinationError,
        OSError,
        TimeoutError,
    ) as error:
        print(f"minikafka: {describe(error)}", file=sys.stderr)
        return FAILED


def describe(error: BaseException) -> str:
    """Format an error as one line for the user."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    if isinstance(error, ports.SessionExpired):
        return "the ZooKeeper session expired; is zookeeper.session.timeout.ms too short?"
    if isinstance(error, errors.WrongPeer) and error.by_keys:
        return f"{error} (in the file of --command-config)"
    if isinstance(error, KafkaError) and not error.message and error.code in MEANINGS:
        return f"{error}: {MEANINGS[error.code]}"
    return str(error) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
