"""The verb `zookeeper-security`: gives existing znodes their ACLs, or opens them to all.

It has the options of Kafka's zookeeper-security-migration.sh."""

from __future__ import annotations

import argparse
from dataclasses import replace

from minikafka.cli.connect import run_client
from minikafka.cli.verb_parser import zookeeper_servers
from minikafka.cli.zookeeper_connect import add_zookeeper_security_argument, zookeeper_security
from minikafka.kernel.config import ConfigError
from minikafka.kernel.ports import World
from minikafka.kernel.zookeeper_security import open_acl
from minikafka.server.zookeeper.znode_acls import missing_roots, replace_acls, secure_acl

DONE, REFUSED = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--zookeeper.acl",
        dest="acl",
        required=True,
        choices=["secure", "unsecure"],
        help="secure: znodes for the brokers' identity; unsecure: znodes for everybody",
    )
    parser.add_argument(
        "--zookeeper.connect",
        dest="connect",
        default="localhost:2181",
        type=zookeeper_servers,
        metavar="HOST:PORT,...[/CHROOT]",
        help="ZooKeeper servers (localhost:2181)",
    )
    for name, what in (("session", "session"), ("connection", "first connection")):
        parser.add_argument(
            f"--zookeeper.{name}.timeout",
            dest=f"{name}_timeout_ms",
            type=int,
            default=30_000,
            metavar="MS",
            help=f"time-out of the {what} (30000)",
        )
    parser.add_argument(
        "--enable.path.check",
        dest="check_paths",
        action="store_true",
        help="change nothing if a root of Kafka's znodes is missing",
    )
    add_zookeeper_security_argument(parser)


def run(args: argparse.Namespace) -> int:
    return run_client(lambda world: convert(world, args))


async def convert(world: World, args: argparse.Namespace) -> int:
    """Raises ConfigError, CoordinationError."""
    security = zookeeper_security(args, world)
    if not security.has_identity:
        raise ConfigError(
            "an identity at ZooKeeper is needed: name the JAAS file in KAFKA_OPTS "
            "(-Djava.security.auth.login.config=FILE), or the keys of the login or of a client "
            "certificate in --zk-tls-config-file"
        )
    acl_of = secure_acl if args.acl == "secure" else open_acl
    session = await world.coordination.open(
        args.connect,
        args.session_timeout_ms,
        args.connection_timeout_ms,
        replace(security, acl_of=acl_of),
    )
    try:
        missing = await missing_roots(session)
        if missing:
            print(
                "Warning: The following secure root paths do not exist in ZooKeeper: "
                f"{','.join(missing)}\n"
                "That might be due to an incorrect chroot is specified when executing the command."
            )
        if missing and args.check_paths:
            print("Exit the command.")
            return REFUSED
        print(f"{await replace_acls(session, acl_of)} znodes are {args.acl}")
    finally:
        await session.close()
    return DONE
