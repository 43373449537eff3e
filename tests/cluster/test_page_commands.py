"""Every command of every page, in the order of the page, on clusters of real processes.

A command fails the test of its page if its exit status is not 0, or if it does not print what the
page shows below it. Pages are found in the folders: a new one needs no entry here.
tests/house/test_pages.py checks what is not run.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from scripts.lib.cluster import free_ports
from tests.support.cluster.terminals import needs_a_terminal
from tests.support.page_reader import (
    PASSWORD,
    READY,
    VARIABLES,
    PageReader,
    Server,
    asks_for_a_password,
)
from tests.support.pages import PAGES, blocks, is_not_run
from tests.support.security.certificates import Authority

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("pages")]

OPTIONS_OF_MIGRATE = "--bootstrap-server 127.0.0.1:9092 --to minikafka --zookeeper 127.0.0.1:2181"
REPEATED_CHECKS = """minikafka() {
    local status
    for _ in $(seq 60); do
        status=0
        command minikafka "$@" || status=$?
        [ "$2 $status" = "check 1" ] || break
        sleep 0.5
    done
    return $status
}
"""
PROGRAMS = ("curl", "jq")  # of others, which pages use


def pages_with_commands() -> list[Any]:
    found = []
    for page in PAGES:
        commands = [command for block in blocks(page) for command in block.commands]
        if not all(map(is_not_run, commands)):
            asking = any(asks_for_a_password(command.text) for command in commands)
            found.append(pytest.param(page, marks=[needs_a_terminal] if asking else []))
    return found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Server]]:
    """Return the cluster of all pages that start none, and start it for the first one."""
    servers: list[Server] = []

    @cache
    def start() -> Server:
        reader = PageReader(tmp_path_factory.mktemp("shared") / "reader", start)
        servers.append(reader.start("up"))
        servers[0].until_ready(READY["up"])
        return servers[0]

    yield start
    for server in servers:
        server.stop()


def a_page_beside(reader: PageReader) -> None:
    """The page that `up` starts can kill brokers."""
    output = reader.serve("up", "--inside").output
    (token,) = re.findall(r"token=(\w+)", output)
    reader.run(f"TOKEN={token}")


def brokers_that_join(reader: PageReader) -> None:
    """Broker 4 has run and was shut down; broker 5 is new. All brokers are of one kind. A check
    that fails is repeated for a while, since brokers apply a change at different times."""
    (reader.folder / VARIABLES).write_text(REPEATED_CHECKS)
    reader.phrases |= {
        "check ...": f"check {OPTIONS_OF_MIGRATE}",
        "--log-dirs /data": "--log-dirs 4",
    }
    for number, file in ((4, "server.properties"), (5, "new.properties")):
        text = f"broker.id={number}\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={number}\n"
        text += reader.here("zookeeper.connect=127.0.0.1:2181\n")
        (reader.folder / file).write_text(text)
    broker = reader.start("broker", "--config", "server.properties")
    broker.until_ready(READY["broker"])
    broker.stop()
    reader.run("BROKERS=127.0.0.1:9092\nZK=127.0.0.1:2181\nTO=minikafka")
    reader.run("minikafka topics create --bootstrap-server $BROKERS --topic to-move")
    moves = [{"topic": "to-move", "partition": 0, "replicas": [1]}]
    (reader.folder / "move.json").write_text(json.dumps({"version": 1, "partitions": moves}))


def a_broker_with_logins(reader: PageReader) -> None:
    """The settings that the page shows, with stores, and with passwords for ``...``."""
    folder = reader.folder
    authority = Authority()
    identity = authority.issue("broker", ("localhost", "127.0.0.1"))
    (folder / "ca.pem").write_bytes(authority.pem)
    (folder / "broker.pem").write_bytes(identity.key_pem() + identity.chain_pem)
    (folder / "new.p12").write_bytes(identity.pkcs12(PASSWORD))
    shown = {
        name: (folder / f"{name}.properties").read_text().replace("...", PASSWORD)
        for name in ("listeners", "authorizer", "tokens", "alice")
    }
    for name in ("alice", "bob"):
        (folder / f"{name}.properties").write_text(shown["alice"].replace("alice", name))
    reader.ports.maps[-1].update(zip((9095, 9096), free_ports(2), strict=True))
    reader.phrases |= {
        "B:9092": "127.0.0.1:9095",
        "B:9094": "127.0.0.1:9096",
        "keystore.password=...": f"keystore.password={PASSWORD}",
    }
    plain, secured = reader.here("B:9092 B:9094").split()
    addresses = f"PLAINTEXT://{plain},SASL_SSL://{secured}"
    text = "".join(shown[name] for name in ("listeners", "authorizer", "tokens"))
    text = text.replace("PLAINTEXT://127.0.0.1:9092,SASL_SSL://:9094", addresses)
    text = text.replace("User:admin", "User:broker;User:ANONYMOUS")
    text += f"broker.id=1\nlog.dirs=1\npassword.encoder.secret={PASSWORD}\n"
    text += reader.here("zookeeper.connect=127.0.0.1:2181/secured\n")
    (folder / "server.properties").write_text(text)
    reader.serve("broker", "--config", "server.properties")
    reader.run(f"export BATCH_PASSWORD={PASSWORD}")
    reader.run("minikafka users --bootstrap-server B:9092 --create --user bob")


BEFORE: dict[str, Callable[[PageReader], None]] = {
    "glass.md": a_page_beside,
    "migration.md": brokers_that_join,
    "security.md": a_broker_with_logins,
}


@pytest.mark.parametrize("page", pages_with_commands(), ids=lambda page: page.name)
def test_the_commands_of_a_page(page: Path, tmp_path: Path, shared: Callable[[], Server]) -> None:
    text = page.read_text()
    missing = [each for each in PROGRAMS if f"{each} -" in text and shutil.which(each) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    with PageReader(tmp_path / "reader", shared) as reader:
        for block in blocks(page):
            if block.file:
                (reader.folder / block.file).write_text(block.text)
        if page.name in BEFORE:
            BEFORE[page.name](reader)
        failures = [each for block in blocks(page) for each in reader.follow(block, is_not_run)]
    assert not failures, "\n".join(failures)
