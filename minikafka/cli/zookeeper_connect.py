"""How the verbs that open a ZooKeeper session secure it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from minikafka.kernel.config import parse_properties
from minikafka.kernel.ports import World
from minikafka.kernel.security_settings import tool_config
from minikafka.kernel.zookeeper_security import CoordinationSecurity
from minikafka.server.zookeeper.session_security import checked_security


def add_zookeeper_security_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--zk-tls-config-file",
        metavar="FILE",
        help="settings of TLS and of the login at ZooKeeper (zookeeper.ssl.*, "
        "java.security.auth.login.config), a .properties file, such as that of a broker; other "
        "keys have no effect",
    )


def zookeeper_security(args: argparse.Namespace, world: World) -> CoordinationSecurity:
    """Return the security that --zk-tls-config-file and KAFKA_OPTS describe. Raises ConfigError,
    OSError."""
    file = args.zk_tls_config_file
    given = {} if file is None else parse_properties(Path(file).read_text(encoding="utf-8"))
    return checked_security(tool_config(given, os.environ), world)
