"""Every configuration key that is accepted has an effect, or a line that says that it has none."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from minikafka.kernel.config import Setting
from minikafka.kernel.ineffective_settings import (
    IGNORED_BROKER_PREFIXES,
    IGNORED_BROKER_SETTINGS,
    INEFFECTIVE_GROUPS,
    INEFFECTIVE_SETTINGS,
    REFUSED_BROKER_SETTINGS,
    REFUSED_GROUPS,
    REFUSED_SETTINGS,
)
from minikafka.kernel.security_settings import (
    SASL_SETTINGS,
    TLS_SETTINGS,
    ZOOKEEPER_SECURITY_SETTINGS,
)
from minikafka.kernel.settings import BROKER_SETTINGS, TOPIC_SETTINGS
from tests.support.sources import PACKAGE, SOURCES, nodes_of

pytestmark = pytest.mark.xdist_group("house")  # one process reads all sources

# Here keys are described, or looked up in the settings of other brokers: no use of our own.
DESCRIPTIONS = {
    *(PACKAGE / "kernel").glob("*settings.py"),
    *(PACKAGE / "core" / "migration").glob("*.py"),
}
# A broker key that gives a topic key its default is read through that one.
DEFAULTS_OF_TOPICS = {name for row in TOPIC_SETTINGS if row.effective for name in row.synonyms}


# Our clients have settings of these names.
OF_CLIENTS = {
    "request.timeout.ms",
    "socket.connection.setup.timeout.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.keystore.type",
    "ssl.truststore.type",
}
EFFECTIVE = (*BROKER_SETTINGS, *ZOOKEEPER_SECURITY_SETTINGS, *TLS_SETTINGS, *SASL_SETTINGS)
ROWS = [*EFFECTIVE, *INEFFECTIVE_SETTINGS, *TOPIC_SETTINGS]


@dataclass(frozen=True)
class Sources:
    """What the modules of the package name: strings, attributes that are read, and the fields of
    configurations as keys."""

    nodes: dict[Path, Sequence[ast.AST]]
    strings: set[str]
    read_attributes: set[str]
    fields: set[str]

    @cached_property
    def prefixes(self) -> list[str]:
        return ["", *(text for text in self.strings if text.endswith("."))]


@pytest.fixture(scope="module")
def sources() -> Sources:
    nodes = {path: nodes_of(path) for path in SOURCES if path not in DESCRIPTIONS}
    # A constant names debug.listener. Spark asks for the schema before it reads, so a function
    # named include_headers reads that option.
    found = Sources(nodes, {"debug.listener"}, {"include_headers"}, set())
    for each in nodes.values():
        for node in each:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.strings.add(node.value)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.read_attributes.add(node.attr)
            elif isinstance(node, ast.ClassDef) and node.name.endswith("Config"):
                # ``view_of`` reads the key of each field, behind a prefix where there is one.
                found.fields.update(name.replace("_", ".") for name in fields_of(node))
    return found


def fields_of(node: ast.ClassDef) -> list[str]:
    return [
        field.target.id
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    ]


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.name not in OF_CLIENTS], ids=lambda row: row.name
)
def test_a_setting_is_read_exactly_if_it_is_said_to_have_an_effect(
    row: Setting, sources: Sources
) -> None:
    is_field = any(
        row.name.removeprefix(prefix) in sources.fields
        for prefix in sources.prefixes
        if row.name.startswith(prefix)
    )
    is_read = is_field or row.name in sources.strings or row.name in DEFAULTS_OF_TOPICS
    assert is_read == row.effective


def test_keys_without_effect_have_a_reason_and_one_row_at_most() -> None:
    rows = [row.name for row in (*EFFECTIVE, *INEFFECTIVE_SETTINGS, *REFUSED_SETTINGS)]
    assert len(rows) == len(set(rows))
    assert not IGNORED_BROKER_SETTINGS.keys() & set(rows)
    reasons = [group.reason for group in (*INEFFECTIVE_GROUPS, *REFUSED_GROUPS)]
    for keys in (IGNORED_BROKER_SETTINGS, IGNORED_BROKER_PREFIXES, REFUSED_BROKER_SETTINGS):
        reasons += keys.values()
    assert all(why.endswith(".") for why in reasons)


def test_every_field_of_a_configuration_is_read(sources: Sources) -> None:
    unread = [
        f"{path.relative_to(PACKAGE)}: {node.name}.{name}"
        for path, nodes in sources.nodes.items()
        for node in nodes
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Config", "Options"))
        for name in fields_of(node)
        if name not in sources.read_attributes
    ]
    assert unread == []
