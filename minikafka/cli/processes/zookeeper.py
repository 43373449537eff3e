"""The verb `zookeeper`: a real ZooKeeper server in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from minikafka.cli.processes.embedded_zookeeper import (
    HEAP_MB,
    SMALLEST_HEAP_MB,
    ZookeeperError,
    ZookeeperOptions,
    class_path,
    find_java,
    jar_folders,
    run_foreground,
)
from minikafka.cli.processes.zookeeper_security import CredentialsError, server_security
from minikafka.cli.verb_parser import at_least


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir", default="minikafka-data/zookeeper", help="folder of the server's data"
    )
    parser.add_argument("--port", type=int, default=2181)
    parser.add_argument("--host", default="127.0.0.1", help="interface to listen on")
    parser.add_argument(
        "--secure",
        metavar="DIR",
        help="folder of credentials: users.jaas for SASL; for TLS keystore.pem, and truststore.pem "
        "if clients must have certificates",
    )
    parser.add_argument(
        "--secure-port", type=int, default=0, help="port for TLS; needs --secure (none)"
    )
    add_heap_argument(parser, "--heap")
    parser.add_argument(
        "--check",
        action="store_true",
        help="print which Java and jars the server would use, and start none",
    )
    parser.add_argument(
        "--stop-with-stdin", action="store_true", help="stop also when standard input ends"
    )


def add_heap_argument(parser: argparse.ArgumentParser, option: str) -> None:
    parser.add_argument(
        option,
        type=at_least(SMALLEST_HEAP_MB),
        metavar="MB",
        default=HEAP_MB,
        help=f"ZooKeeper's largest heap, of which it takes what it needs ({HEAP_MB}); 100,000 "
        "partitions need more",
    )


def run(args: argparse.Namespace) -> int:
    try:
        if args.check:
            jars = class_path(jar_folders(os.environ), secured=args.secure is not None)
            print(f"Java: {find_java(os.environ)}", *(f"jar: {jar}" for jar in jars), sep="\n")
            return 0
        if args.secure_port and args.secure is None:
            raise CredentialsError("--secure-port needs --secure")
        security = None
        if args.secure is not None:
            security = server_security(Path(args.secure), args.secure_port)
        options = ZookeeperOptions(
            args.data_dir, args.port, args.host, heap_mb=args.heap, security=security
        )
        return asyncio.run(run_foreground(options, args.stop_with_stdin))
    except (ZookeeperError, CredentialsError) as error:
        print(f"minikafka: {error}", file=sys.stderr)
        return 1
