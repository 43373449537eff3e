"""The acts of the page: their words are those of the verbs, and no value becomes an option."""

from __future__ import annotations

import argparse
import importlib
import json
import shlex
import shutil
import subprocess
from typing import Any

import pytest

from minikafka.cli.cluster.configs import parse_added
from minikafka.cli.cluster.delete_records import parse_offsets
from minikafka.cli.cluster.reassign import parse_reassignment, parse_topics
from minikafka.cli.groups.group_text import parse_reset_csv
from minikafka.cli.main import VERBS
from minikafka.cli.records.record_text import parse_json_line
from minikafka.cli.usage import translate
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigType, parse_properties
from minikafka.kernel.settings import BROKER_CONFIG
from minikafka.page.dashboard.acting.act_fields import ActError, ActField, is_secret
from minikafka.page.dashboard.acting.acts import ACTS, Command, command, shown_command

BOOTSTRAP = "127.0.0.1:9092,127.0.0.1:9093"
PLAN = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
# Arguments of acts whose fields exclude each other; others get a value for every field.
ACL = {
    "resource": "topic",
    "name": "t",
    "pattern": "prefixed",
    "permission": "deny",
    "principal": "User:a",
    "host": "10.0.0.1",
    "operation": "Read,Write",
}
WHOLE: dict[str, list[dict[str, Any]]] = {
    "configs-alter": [
        {"topic": "t", "add": "cleanup.policy=compact,delete,retention.ms=1", "delete": "a,b"},
        {"broker": 1, "add": {"ssl.keystore.password": "x"}},
        {"broker_defaults": True, "delete": ["a"]},
        {"broker_logger": "2", "add": "isr=DEBUG"},
    ],
    "configs-describe": [{"topic": "t", "all": True}, {"broker": 1}, {"broker_defaults": True}],
    "groups-reset-offsets": [
        {"group": "g", "to": "earliest"},
        {"group": "g", "topic": "t", "to": "latest"},
        {"group": "g", "topic": "t", "partition": 0, "offset": 7},
        {"group": "g", "topic": "t", "shift_by": -5},
        {"group": "g", "topic": "t", "datetime": "2026-01-31T12:00:00"},
        {"group": "g", "duration": "PT1H"},
        {"group": "g", "offsets": "t:0=5,u:1=6"},
    ],
    "reassign": [{"plan": PLAN, "throttle": 1000, "additional": True}],
    "reassign-verify": [{"plan": PLAN}],
    "reassign-cancel": [{"plan": PLAN}],
    "transactions-abort": [
        {"topic": "t", "partition": 0, "start_offset": 7},
        {**dict.fromkeys(("producer_id", "producer_epoch"), 1), "coordinator_epoch": -1}
        | {"topic": "t", "partition": 0},
    ],
    "transactions-find-hanging": [{"topic": "t", "partition": 0}, {"broker_id": 1}],
    "elect-leaders": [
        {"election_type": "preferred"},
        {"election_type": "unclean", "topic": "t", "partition": 0},
    ],
    "quotas-set": [
        {"user": "u", "client_defaults": True, "producer_byte_rate": 1.5e6},
        {"ip": "10.0.0.1", "connection_creation_rate": "7.5"},
    ],
    "quotas-remove": [{"user_defaults": True, "limit": ["producer_byte_rate"]}],
    "acls-add": [
        {"resource": "topic", "name": "t", "permission": "allow", "principal": "User:a"},
        {"resource": "cluster", "permission": "deny", "principal": "User:*", "host": "::1"},
    ],
    "acls-remove": [ACL],
    "acls-list": [{}, {"topic": "t"}, {"resource": "cluster", "principal": "User:a,User:b"}],
    "quotas-describe": [{"user": "u", "client": "c"}, {}],
    "groups-describe": [{}, {"group": "a,b", "what": "members"}, {"what": "state"}],
}
DRY: dict[str, list[dict[str, Any]]] = {
    "groups-reset-offsets": WHOLE["groups-reset-offsets"],
    "reassign": [{"topic": "t,u", "brokers": "1,2"}],
}


def example(field: ActField) -> Any:
    values = {"flag": True, "broker": 1, "number": max(field.least, 1), "settings": "a=1,b=2,3"}
    return field.choices[0] if field.choices else values.get(field.kind, "x")


def parsed(found: Command) -> argparse.Namespace:
    """Parse the words with the parser of the real verb."""
    verb, *words = found.words
    parser = argparse.ArgumentParser(exit_on_error=False)
    importlib.import_module(VERBS[verb][0]).add_arguments(parser)
    return parser.parse_args(translate(verb, words))


@pytest.mark.mission("GLASS-20")
@pytest.mark.parametrize("name", ACTS)
def test_the_real_verb_takes_the_words_of_each_act(name: str) -> None:
    act = ACTS[name]
    whole = {field.name: example(field) for field in act.fields}
    least = {field.name: example(field) for field in act.fields if field.required}
    properties = "/some/client.properties"
    for arguments in WHOLE.get(name, [whole] if least == whole else [whole, least]):
        found = parsed(command(name, arguments, BOOTSTRAP, properties))
        assert (found.bootstrap_server, found.command_config) == (BOOTSTRAP, properties)
    for arguments in DRY.get(name, []):
        parsed(command(name, arguments, BOOTSTRAP, properties, dry_run=True))
    assert bool(act.dry_run) == (name in DRY)


@pytest.mark.mission("GLASS-20")
def test_fields_set_the_options_of_their_verbs() -> None:
    found = parsed(command("topics-create", {"topic": "t", "config": "a=1,2,b=[3]"}, BOOTSTRAP))
    assert (found.topic, found.config) == ("t", ["a=1,2", "b=3"])
    altered = parsed(command("configs-alter", WHOLE["configs-alter"][0], BOOTSTRAP))
    assert parse_added(altered.add_config) == {
        "cleanup.policy": "compact,delete",
        "retention.ms": "1",
    }
    assert altered.delete_config == ["a,b"]
    shifted = parsed(command("groups-reset-offsets", WHOLE["groups-reset-offsets"][3], BOOTSTRAP))
    assert (shifted.shift_by, shifted.execute) == (-5, True)
    far = {"group": "g", "topic": "t", "partition": 0, "offset": str(2**63 - 1)}
    assert parsed(command("groups-reset-offsets", far, BOOTSTRAP)).to_offset == 2**63 - 1
    dry = command("groups-reset-offsets", WHOLE["groups-reset-offsets"][3], BOOTSTRAP, dry_run=True)
    assert not parsed(dry).execute
    quota = parsed(command("quotas-set", WHOLE["quotas-set"][0], BOOTSTRAP))
    assert (quota.user, quota.producer_byte_rate) == ("u", 1.5e6)
    assert vars(quota)["client-id"] is None  # the defaults


@pytest.mark.mission("GLASS-20")
def test_files_come_by_standard_input() -> None:
    deleted = command("delete-records", {"topic": "t", "partition": 1, "offset": -1}, BOOTSTRAP)
    assert parse_offsets(deleted.stdin or "") == {TopicPartition("t", 1): -1}
    reset = command("groups-reset-offsets", WHOLE["groups-reset-offsets"][6], BOOTSTRAP)
    assert parse_reset_csv(reset.stdin or "", ["g"]) == {
        "g": {TopicPartition("t", 0): 5, TopicPartition("u", 1): 6}
    }
    proposal = command("reassign", DRY["reassign"][0], BOOTSTRAP, dry_run=True)
    assert parse_topics(proposal.stdin or "") == ["t", "u"]
    assert parsed(proposal).action == "generate"
    moves = command("reassign", WHOLE["reassign"][0], BOOTSTRAP)
    assert parse_reassignment(moves.stdin or "").targets == {TopicPartition("t", 0): (1, 2)}
    line = command("produce", {"topic": "t", "key": "-k", "value": "a\nb"}, BOOTSTRAP).stdin or ""
    record = parse_json_line(line.encode())
    assert (record.key, record.value) == (b"-k", b"a\nb")


@pytest.mark.mission("GLASS-131")
def test_acts_on_acls_users_and_tokens_name_the_options_of_their_verbs() -> None:
    removed = parsed(command("acls-remove", ACL, BOOTSTRAP))
    assert (removed.remove, removed.force, removed.topic) == (True, True, ["t"])
    assert (removed.deny_principal, removed.deny_host) == (["User:a"], ["10.0.0.1"])
    assert (removed.operation, removed.resource_pattern_type) == (["Read", "Write"], "prefixed")
    for arguments in ({**ACL, "resource": "cluster"}, {**ACL, "name": ""}):
        with pytest.raises(ActError, match="name"):
            command("acls-add", arguments, BOOTSTRAP)
    made = command("users-create", {"user": "a", "password": "-s3cret'"}, BOOTSTRAP)
    assert (made.stdin, parsed(made).password_file) == ("-s3cret'\n", "-")
    assert "s3cret" not in shown_command(made)
    with pytest.raises(ActError):
        command("users-create", {"user": "a", "password": "two\nlines"}, BOOTSTRAP)
    gone = parsed(command("tokens-expire", {"token_id": "x", "expiry_time_period": -1}, BOOTSTRAP))
    assert (gone.expire, gone.token_id, gone.expiry_time_period) == (True, "x", -1)


@pytest.mark.mission("GLASS-20")
def test_no_value_becomes_an_option() -> None:
    for name, act in ACTS.items():
        for field in act.fields:
            if field.kind in ("flag", "body", "password", "number", "broker"):
                continue
            arguments = {each.name: example(each) for each in act.fields if each.required}
            for smuggled in ("--command-config=/etc/passwd", "-x", "a\n--force", "a\0"):
                given: Any = [smuggled] if field.several else smuggled
                given = {smuggled: "1"} if field.kind == "settings" else given
                with pytest.raises(ActError):
                    command(name, {**arguments, field.name: given}, BOOTSTRAP)


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("none", {}, "no act none"),
        ("topics-create", {}, "topic is missing"),
        ("topics-create", {"topic": ""}, "topic is missing"),
        ("topics-create", {"topic": "t", "colour": 1}, "no field colour"),
        ("topics-create", {"topic": "t:0"}, "cannot be the name"),
        ("topics-create", {"topic": "t", "partitions": "many"}, "a number is needed"),
        ("topics-create", {"topic": "t", "partitions": 1.5}, "a number is needed"),
        ("topics-create", {"topic": "t", "partitions": True}, "a number is needed"),
        ("topics-create", {"topic": "t", "partitions": 0}, "not within"),
        ("topics-create", {"topic": ["t"]}, "a text is needed"),
        ("topics-create", {"topic": "t", "config": "a"}, "not KEY=VALUE"),
        ("topics-create", {"topic": "t", "config": {"a b": "1"}}, "key of a setting"),
        ("configs-alter", {"topic": "t", "broker": 1, "add": "a=1"}, "exactly one of"),
        ("configs-alter", {"topic": "t"}, "name settings"),
        ("configs-alter", {"topic": "t", "add": {"a": "]x[,"}}, "brackets"),
        ("configs-alter", {"topic": "t", "delete": "a", "broker_defaults": 3}, "true or false"),
        ("groups-reset-offsets", {"group": "g"}, "exactly one of"),
        ("groups-reset-offsets", {"group": "g", "to": "x"}, "none of earliest"),
        ("groups-reset-offsets", {"group": "g", "offsets": "t=5"}, "TOPIC:PARTITION=OFFSET"),
        ("groups-reset-offsets", {"group": "g", "partition": 1, "offset": 5}, "needs its topic"),
        ("reassign", {"topic": "t", "brokers": "1"}, "dry run proposes"),
        ("reassign", {"plan": "{"}, "not JSON"),
        ("elect-leaders", {"election_type": "unclean", "topic": "t"}, "go together"),
        ("consume", {"topic": "t", "offset": 5}, "needs its partition"),
        ("transactions-find-hanging", {}, "topic or broker_id"),
        ("transactions-abort", {"topic": "t", "partition": 0}, "start_offset is needed"),
        ("groups-delete", {"group": "x" * 70_000}, "longer than"),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(
    name: str, arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ActError, match=sentence):
        command(name, arguments, BOOTSTRAP)
    with pytest.raises(ActError, match="has no dry run"):
        command("topics-create", {"topic": "t"}, BOOTSTRAP, dry_run=True)


@pytest.mark.mission("GLASS-20")
def test_a_shown_command_is_quoted_and_has_no_secrets() -> None:
    created = command("topics-create", {"topic": "t", "partitions": 3}, "b:1")
    assert (
        shown_command(created)
        == "minikafka topics create --bootstrap-server b:1 --topic t --partitions 3"
    )
    group = shown_command(command("groups-delete", {"group": "a'; rm -rf $HOME"}, "b:1"))
    assert shlex.split(group)[-1] == "a'; rm -rf $HOME"
    add = {"ssl.keystore.password": "pa\\ss", "log.cleaner.threads": "2"}
    secret = command("configs-alter", {"broker": 1, "add": add}, "b:1")
    assert not any("ss" in word for word in secret.words if word != "--bootstrap-server")
    assert parse_properties(secret.stdin or "") == add
    assert "pa" + "\\" not in shown_command(secret)
    assert "log.cleaner.threads=2" in shown_command(secret)
    assert shown_command(secret).startswith("printf ")


def test_a_shown_command_keeps_its_input_in_every_shell() -> None:
    """The echo of dash and zsh would make a line's end of the escape within JSON."""
    found = command("produce", {"topic": "t", "value": "one\ntwo 100%"}, "b:1")
    line = shown_command(found).partition(" | minikafka ")[0]
    for shell in filter(None, map(shutil.which, ("sh", "dash", "bash", "zsh"))):
        printed = subprocess.run([shell, "-c", line], capture_output=True, text=True, check=True)
        assert json.loads(printed.stdout) == json.loads(found.stdin or "")


@pytest.mark.mission("GLASS-14")
def test_every_setting_that_brokers_keep_as_a_password_is_hidden() -> None:
    rows = BROKER_CONFIG.settings.items()
    names = [name for name, row in rows if row.type is ConfigType.PASSWORD]
    assert "ssl.keystore.key" in names
    for name in (*names, "listener.name.internal.ssl.keystore.key"):
        found = command("configs-alter", {"broker": 1, "add": {name: "hunter2"}}, "b:1")
        assert not any("hunter2" in word for word in found.words)
        assert "hunter2" in (found.stdin or "")
        assert "hunter2" not in shown_command(found)
    assert not is_secret("retention.ms")
    assert not is_secret("no.such.setting")


def test_the_page_gets_the_acts_as_json() -> None:
    rows = json.loads(json.dumps([act.facts(BOOTSTRAP) for act in ACTS.values()]))
    by_name = {row["name"]: row for row in rows}
    assert by_name["topics-delete"]["dangerous"]
    assert not by_name["topics-create"]["dangerous"]
    assert by_name["groups-reset-offsets"]["dry_run"]
    kinds = {field["type"] for row in rows for field in row["fields"]}
    assert kinds <= {*("text", "number", "choice", "flag", "topic", "broker", "group", "password")}
