"""Every configuration key that is accepted has an effect, or a line that says that it has none."""

from __future__ import annotations

import ast
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
from minikafka.kernel.sasl_settings import SASL_SETTINGS
from minikafka.kernel.settings import BROKER_SETTINGS, TOPIC_SETTINGS
from minikafka.kernel.tls_settings import TLS_SETTINGS
from minikafka.kernel.zookeeper_settings import ZOOKEEPER_SECURITY_SETTINGS

ROOT = Path(__file__).resolve().parents[2] / "minikafka"
# Here keys are described, or looked up in the settings of other brokers: no use of our own.
DESCRIPTIONS = {
    *(ROOT / "kernel").glob("*settings.py"),
    *(ROOT / "core" / "migration").glob("*.py"),
}
TREES = {
    path: ast.parse(path.read_text()) for path in ROOT.rglob("*.py") if path not in DESCRIPTIONS
}
STRINGS = {
    node.value
    for tree in TREES.values()
    for node in ast.walk(tree)
    if isinstance(node, ast.Constant) and isinstance(node.value, str)
}
STRINGS.add("debug.listener")  # named by a constant
READ_ATTRIBUTES = {
    node.attr
    for tree in TREES.values()
    for node in ast.walk(tree)
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
}
# Spark asks for the schema before it reads, so a function of this name reads the option.
READ_ATTRIBUTES.add("include_headers")
# ``view_of`` reads the key of each field of a configuration, behind a prefix where there is one.
FIELDS = {
    field.target.id.replace("_", ".")
    for tree in TREES.values()
    for node in ast.walk(tree)
    if isinstance(node, ast.ClassDef) and node.name.endswith("Config")
    for field in node.body
    if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
}
PREFIXES = {"", *(text for text in STRINGS if text.endswith("."))}
# A broker key that gives a topic key its default is read through that one.
DEFAULTS_OF_TOPICS = {name for row in TOPIC_SETTINGS if row.effective for name in row.synonyms}


# Our clients have settings of these names.
OF_CLIENTS = {
    "request.timeout.ms",
    "socket.connection.setup.timeout.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "ssl.keystore.type",
    "ssl.truststore.type",
}
EFFECTIVE = (*BROKER_SETTINGS, *ZOOKEEPER_SECURITY_SETTINGS, *TLS_SETTINGS, *SASL_SETTINGS)
ROWS = [*EFFECTIVE, *INEFFECTIVE_SETTINGS, *TOPIC_SETTINGS]


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.name not in OF_CLIENTS], ids=lambda row: row.name
)
def test_a_setting_is_read_exactly_if_it_is_said_to_have_an_effect(row: Setting) -> None:
    is_field = any(
        row.name.removeprefix(prefix) in FIELDS
        for prefix in PREFIXES
        if row.name.startswith(prefix)
    )
    is_read = is_field or row.name in STRINGS or row.name in DEFAULTS_OF_TOPICS
    assert is_read == row.effective


def test_keys_without_effect_have_a_reason_and_one_row_at_most() -> None:
    rows = [row.name for row in (*EFFECTIVE, *INEFFECTIVE_SETTINGS, *REFUSED_SETTINGS)]
    assert len(rows) == len(set(rows))
    assert not IGNORED_BROKER_SETTINGS.keys() & set(rows)
    reasons = [group.reason for group in (*INEFFECTIVE_GROUPS, *REFUSED_GROUPS)]
    for keys in (IGNORED_BROKER_SETTINGS, IGNORED_BROKER_PREFIXES, REFUSED_BROKER_SETTINGS):
        reasons += keys.values()
    assert all(why.endswith(".") for why in reasons)


def test_every_field_of_a_configuration_is_read() -> None:
    unread = [
        f"{path.relative_to(ROOT)}: {node.name}.{field.target.id}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Config", "Options"))
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if field.target.id not in READ_ATTRIBUTES
    ]
    assert unread == []
