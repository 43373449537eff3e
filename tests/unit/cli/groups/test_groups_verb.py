"""The verb `groups`: its texts, its times, its files, and what it finds in event logs."""

from __future__ import annotations

import argparse
import io
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from minikafka.cli.cluster.debug import eviction_text, group_tables
from minikafka.cli.groups import group_actions, groups
from minikafka.cli.groups import group_text as text
from minikafka.cli.groups.group_reset import datetime_ms, duration_ms
from minikafka.cli.groups.groups import parse, show_timeline
from minikafka.client import OffsetAndMetadata
from minikafka.core.client.admin.groups import (
    ConsumerGroupEpochs,
    ConsumerGroupMemberFacts,
    GroupDescription,
    MemberDescription,
    assigned,
)
from minikafka.core.client.cluster_view import Node
from minikafka.kernel import events
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.protocol.codec import encode
from minikafka.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerTopicPartitions,
)
from minikafka.server.coordinator.group_facts import all_group_facts, group_facts
from tests.support.coordinator.group_lab import GroupLab

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
NODE = Node(1, "host", 9092)


def group(*members: MemberDescription) -> GroupDescription:
    return GroupDescription("g", "Stable", "consumer", "range", members, NODE)


def member(
    name: str, *partitions: TopicPartition, instance: str | None = None
) -> MemberDescription:
    return MemberDescription(name, instance, "client", "/1.2.3.4", partitions)


def test_lag_of_owned_and_of_forsaken_partitions() -> None:
    rows = text.lag_rows(
        group(member("idle"), member("m1", B0), member("m2", A0, A1)),
        {
            A0: OffsetAndMetadata(3),
            B0: OffsetAndMetadata(9),
            TopicPartition("c", 0): OffsetAndMetadata(1),
        },
        {A0: 10, A1: 5, B0: 9},
    )
    assert [(row.partition, row.current, row.end, row.lag, row.member_id) for row in rows] == [
        (A0, 3, 10, 7, "m2"),
        (A1, None, 5, None, "m2"),
        (B0, 9, 9, 0, "m1"),
        (TopicPartition("c", 0), 1, None, None, "-"),
    ]
    lines = text.offsets_table("g", rows).splitlines()
    assert lines[2].split() == ["g", "a", "1", "-", "5", "-", "m2", "/1.2.3.4", "client"]
    assert lines[0].index("LAG") == lines[1].index("7")


def test_members_show_their_instances_if_any_has_one() -> None:
    plain = text.members_table(group(member("m1", A0, B0, A1)), verbose=False)
    assert "INSTANCE" not in plain
    static = text.members_table(group(member("m1", A0, instance="i")), verbose=True)
    assert static.splitlines()[1].split() == ["g", "m1", "i", "/1.2.3.4", "client", "1", "a(0)"]
    assert text.partitions_text([B0, A1, A0]) == "a(0,1), b(0)"
    assert text.partitions_text([]) == "-"


def consumer_group(*upgraded: bool | None) -> GroupDescription:
    """A consumer group with a member for each of ``upgraded``; each has a-0, a-1, and targets b-0
    too."""
    members = tuple(
        replace(
            member(f"m{number}", A0, A1),
            consumer=ConsumerGroupMemberFacts(4, (B0, A0, A1), is_upgraded),
        )
        for number, is_upgraded in enumerate(upgraded)
    )
    return replace(group(*members), state="Reconciling", epochs=ConsumerGroupEpochs(7, 6))


def test_members_of_a_consumer_group_show_their_epochs_and_targets() -> None:
    """The columns of Kafka 4."""
    whole = consumer_group(True)
    plain = text.members_table(whole, verbose=False)
    assert plain.split() == text.members_table(group(member("m0", A0, A1)), verbose=False).split()
    head, row = text.members_table(whole, verbose=True).splitlines()
    names = ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
    assert head.split()[5:] == names
    assert row.split()[4:] == ["2", "4", "a:0,1", "6", "a:0,1;b:0"]
    mixed = text.members_table(consumer_group(True, False, None), verbose=True).splitlines()
    assert [line.split()[-1] for line in mixed] == ["UPGRADED", "true", "false", "-"]
    assert text.one_word([]) == "-"


def test_the_state_of_a_consumer_group_has_its_epochs_if_wanted() -> None:
    whole = consumer_group(True)
    assert "EPOCH" not in text.state_table(whole)
    head, row = text.state_table(whole, "m9: session timed out").splitlines()
    assert head.split()[4:] == [
        *("STATE", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS", "LAST-EVICTION"),
    ]
    assert row.split()[4:] == ["Reconciling", "7", "6", "1", "m9:", "session", "timed", "out"]


def test_json_of_both_types_of_groups() -> None:
    classic = text.group_json(group(member("m1", A0)), None, None)
    assert classic["type"] == "classic"
    assert "groupEpoch" not in classic
    assert "memberEpoch" not in classic["members"][0]
    consumer = text.group_json(consumer_group(True), None, None)
    assert (consumer["type"], consumer["groupEpoch"]) == ("consumer", 7)
    assert consumer["targetAssignmentEpoch"] == 6
    (alone,) = consumer["members"]
    assert (alone["memberEpoch"], alone["upgraded"]) == (4, True)
    assert alone["targetAssignment"] == {"a": [0, 1], "b": [0]}


def test_undecodable_assignments_are_shown_as_empty() -> None:
    given = ConsumerProtocolAssignment([ConsumerTopicPartitions("a", [1, 0])])
    assert assigned(b"\0\3" + encode(given, 0)) == (A0, A1)
    assert assigned(b"") == assigned(b"\0\0\xff") == ()


@pytest.mark.parametrize(
    ("duration", "ms"),
    [("PT0S", 0), ("P1D", 86_400_000), ("PT1H30M", 5_400_000), ("P1DT0.25S", 86_400_250)],
)
def test_durations(duration: str, ms: int) -> None:
    assert duration_ms(duration) == ms


@pytest.mark.parametrize("duration", ["", "P", "PT", "1D", "PT1X", "P1H"])
def test_an_invalid_duration_is_refused(duration: str) -> None:
    with pytest.raises(ConfigError, match="by-duration"):
        duration_ms(duration)


def test_datetimes() -> None:
    noon = round(datetime(2024, 5, 6, 12, tzinfo=UTC).timestamp() * 1000)
    assert datetime_ms("2024-05-06T12:00:00.000") == noon
    assert datetime_ms("2024-05-06T12:00:00.250Z") == noon + 250
    assert datetime_ms("2024-05-06T14:00:00.000+02:00") == noon
    with pytest.raises(ConfigError, match="to-datetime"):
        datetime_ms("yesterday")


def test_csv_there_and_back() -> None:
    plan = {"g": {A1: 2, A0: 1}, 'h,"x"': {B0: 3}}
    told = text.reset_csv(plan, with_group=True)
    assert told == 'g,a,0,1\ng,a,1,2\n"h,""x""",b,0,3\n'
    assert text.parse_reset_csv(told, ["g", "h"]) == plan
    alone = text.reset_csv({"g": plan["g"]}, with_group=False)
    assert text.parse_reset_csv(alone + "\n", ["g"]) == {"g": plan["g"]}
    for bad in ("a,0", "a,x,1"):
        with pytest.raises(ConfigError, match="line 1"):
            text.parse_reset_csv(bad, ["g"])
    with pytest.raises(ConfigError, match="line 1"):
        text.parse_reset_csv("a,0,1", ["g", "h"])


def test_names_of_states() -> None:
    assert group_actions.chosen("stable, EMPTY", groups.STATES, "state") == ["Stable", "Empty"]
    assert (
        group_actions.chosen("", groups.STATES, "state")
        == group_actions.chosen(None, (), "state")
        == []
    )
    with pytest.raises(ConfigError, match="Invalid state list 'Happy'"):
        group_actions.chosen("Happy", groups.STATES, "state")


@pytest.mark.parametrize(
    "line",
    [
        "describe --bootstrap-server x:1",
        "describe --bootstrap-server x:1 --group g --all-groups",
        "describe --bootstrap-server x:1 --group g --members --state",
        "reset-offsets --bootstrap-server x:1 --group g --all-topics",
        "reset-offsets --bootstrap-server x:1 --group g --to-latest --to-earliest",
        "reset-offsets --bootstrap-server x:1 --group g --to-latest --dry-run --execute",
        "delete-offsets --bootstrap-server x:1 --group g",
    ],
)
def test_wrong_usage(line: str) -> None:
    parser = argparse.ArgumentParser()
    groups.add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(line.split())


# -- the life of a group


def written(as_json: bool, group_id: str) -> str:
    """Event logs of a broker, as the product writes them."""
    stream = io.StringIO()
    with events.diverted(lambda *_: None):
        events.configure("INFO", json=as_json, stream=stream)
        log = events.event_log("group-coordinator", broker=1).bind(partition=7)
        log.info("groups_loaded", epoch=0, groups=0)
        reason = "adding new member m=1 (client reason: it's new)"
        log.info("rebalance_prepared", group=group_id, reason=reason, old_generation=0)
        log.bind(partition=8).info("groups_loaded", epoch=0)
        log.info("group_emptied", group="other")
        events.event_log("replica-manager").info("unrelated", group=group_id)
        message = f"Member m1 in group {group_id} has failed, removing it from the group"
        log.info("member_failed", message=message, group=group_id)
    return stream.getvalue()


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("group_id", ["g", "my group's"])
def test_a_timeline(
    as_json: bool, group_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.write_text("Traceback\n  group-coordinator\n" + written(as_json, group_id))
    assert show_timeline(group_id, [str(log)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines[1:]] == [
        "groups_loaded",
        "rebalance_prepared",
        "member_failed",
    ]
    assert "reason=adding new member m=1 (client reason: it's new)" in lines[2]
    assert show_timeline("nobody", [str(log)]) == 1


def test_lines_that_are_no_events() -> None:
    assert parse("{nonsense") is None
    assert parse("nonsense") is None
    event = parse("2026-01-01T00:00:00 [info     ] up")
    assert event is not None
    assert (event.name, event.facts) == ("up", {})


@pytest.mark.mission("HB-7")
def test_groups_and_evictions_in_a_table() -> None:
    last = {"member": "m1", "reason": "session timed out", "at_ms": 0}
    assert eviction_text(last) == "m1: session timed out (1970-01-01T00:00:00+00:00)"
    assert eviction_text(None) is None
    lab = GroupLab()
    lab.stable("a", "b")
    lab.commit({("t", 0): 1}, group_id="other")
    lab.clock.advance(10_000)
    shown = json.loads(json.dumps(all_group_facts(lab.coordinator, 10)))
    ((columns, rows),) = group_tables(shown)
    assert shown["num_groups"] == len(rows) == 2
    by_name = [dict(zip(columns, row, strict=True)) for row in rows]
    assert by_name[0]["last_eviction"].startswith("b: session timed out (")
    assert [(row["group"], row["offsets"]) for row in by_name] == [("g", 0), ("other", 1)]
    alone = group_facts(lab.coordinator, 10, "other")
    assert [row["group"] for row in alone["groups"]] == ["other"]
    assert group_facts(lab.coordinator, 10, "nobody")["groups"] == []


@pytest.mark.parametrize("members", [False, True])
def test_a_group_without_rows_is_an_empty_table_on_a_terminal_only(
    members: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members of Kafka Connect, for example, have no partitions, and it commits no offsets."""
    args = argparse.Namespace(members=members, state=False, verbose=False)
    assert groups.table(group(), [], args, None) == ""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert groups.table(group(), [], args, None).splitlines()[-1] == "(none)"
