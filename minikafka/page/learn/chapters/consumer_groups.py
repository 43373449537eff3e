"""Chapter 16: the coordinator assigns (KIP-848), and each member follows in its own time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any

from minikafka.page.learn import looks
from minikafka.page.learn.recipe import Value
from minikafka.page.learn.story import Chapter, Story
from minikafka.protocol.messages.consumer_group_log import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataValue,
)
from minikafka.testing.simulator.cluster import SimCluster

ON_THREE_BROKERS = "1;2;3;1;2;3"
ALL = list(range(6))
OLD, NEW = "billing", "shipping"  # a classic group, and a consumer group
BILLING, SHIPPING = (("groups", f"group||{name}") for name in (OLD, NEW))
SLOW_MS = 15_000  # how long m2 works before it gives partitions up


async def play(story: Story) -> None:
    pause_ms = await _stop_the_world(story)
    coordinator = await _first_heartbeat(story)
    await _second_member(story)
    await _slow_member(story, coordinator, pause_ms)
    await _vanish(story)
    await _leave(story)
    await _records(story)
    await _upgrade(story)
    await story.say("end", focus=("groups",))


def _facts(cluster: SimCluster, group: str = NEW) -> dict[str, Any]:
    return looks.group(cluster, group) or {"state": "unknown", "epoch": 0, "members": []}


def _members(cluster: SimCluster, group: str = NEW) -> dict[str, dict[str, Any]]:
    """Return the facts of the members by their client ids: m1, m2, m3."""
    return {each["client"]: each for each in _facts(cluster, group)["members"]}


def _shares(cluster: SimCluster, group: str = NEW) -> dict[str, list[int]]:
    """Return the partitions of each member by its client id."""
    names = {each["member"]: client for client, each in _members(cluster, group).items()}
    found = looks.shares(cluster, group)
    return dict(sorted((names[member], share) for member, share in found.items()))


def _epochs(cluster: SimCluster) -> dict[str, int]:
    return {client: each["epoch"] for client, each in sorted(_members(cluster).items())}


def _is_stable(cluster: SimCluster, members: int, group: str = NEW) -> bool:
    """Return whether a group has so many members, which have all partitions."""
    shares = _shares(cluster, group)
    complete = len(shares) == members and sorted(chain(*shares.values())) == ALL
    return complete and _facts(cluster, group)["state"] == "Stable"


def _join(story: Story, group: str, member: str, **arguments: Any) -> None:
    story.do("join_group", topic="orders", group=group, member=member, **arguments)


def _shown(shares: Mapping[str, list[int]]) -> dict[str, str]:
    """Return the shares as values of a text: {m1} becomes "0 1 2"."""
    return {member: " ".join(map(str, share)) or "-" for member, share in shares.items()}


def _number(partition: str) -> int:
    """Return the number of a partition that is named like ``orders-3``."""
    return int(partition.rpartition("-")[2])


async def _stop_the_world(story: Story) -> int:
    """A classic group: all give up everything, and the slowest one decides. Return for how many
    milliseconds nobody read."""
    await story.say("intro", focus=("stage",))
    await story.until("up", looks.is_up, pace=50)
    created = story.do("create_topic", topic="orders", assignment=ON_THREE_BROKERS)
    await story.finished(created, pace=20)
    for member, revoke_ms in (("m1", 0), ("m2", SLOW_MS)):
        _join(story, OLD, member, revoke_ms=revoke_ms)
    await story.until("two", lambda cluster: _is_stable(cluster, 2, OLD), pace=500)
    await story.wait(ms=50, pace=20)
    await story.say("classic", focus=BILLING)
    _join(story, OLD, "m3")
    given_up = await story.until_event("partitions_revoked", group=OLD, member="m1", pace=500)
    begun_us = story.now_us
    story.check("all-given-up", len(given_up["partitions"]) == 3, focus=BILLING)
    first = _number(given_up["partitions"][0])
    story.do("produce", topic="orders", partition=first, records=3)
    await story.ask("how-long", right=2, focus=BILLING)
    await story.until_event("consumed", group=OLD, pace=2_000)
    pause_ms = (story.now_us - begun_us) // 1_000
    await story.until("three", lambda cluster: _is_stable(cluster, 3, OLD), pace=500)
    story.check("stood-still", pause_ms > SLOW_MS // 2, focus=BILLING, ms=pause_ms)
    members = looks.shares(story.cluster, OLD)
    story.check("leader", _facts(story.cluster, OLD)["leader"] in members, focus=BILLING)
    await story.say("barrier", focus=BILLING)
    return pause_ms


async def _first_heartbeat(story: Story) -> int:
    """One request makes a member; the next ones are short. Return the coordinator."""
    _join(story, NEW, "m1", protocol="consumer")
    sent = await story.until_message(
        "ConsumerGroupHeartbeat", source="client", arrived=False, pace=25
    )
    await story.say("one-request", focus=("wire",))
    await story.until_event("partitions_assigned", group=NEW, pace=5)
    facts, epochs = _facts(story.cluster), _epochs(story.cluster)
    in_one = (facts["epoch"], facts["target_epoch"], epochs) == (1, 1, {"m1": 1})
    coordinator = int(facts["coordinator"])
    story.check("joined", in_one, focus=SHIPPING, coordinator=coordinator)
    story.check("replicated", _is_replicated(story.cluster, coordinator), focus=SHIPPING)
    await story.say("three-numbers", focus=SHIPPING)
    await story.until_message("ConsumerGroupHeartbeat", source="client", arrived=False, pace=5)
    short = await story.until_message(
        "ConsumerGroupHeartbeat", source="client", arrived=False, pace=1_000
    )
    is_short = short.size_bytes < sent.size_bytes
    sizes = {"first": sent.size_bytes, "later": short.size_bytes}
    story.check("short", is_short, focus=("wire",), **sizes)
    return coordinator


def _is_replicated(cluster: SimCluster, coordinator: int) -> bool:
    """Return whether all records of the group's partition are committed."""
    partition = looks.group_partition(cluster, NEW)
    assert partition is not None
    end = looks.log_end(cluster, partition, coordinator)
    return end == looks.high_watermark(cluster, partition, coordinator) > 0


async def _second_member(story: Story) -> None:
    """A member joins: it waits, the first one reads on, and gives up only what moves."""
    before = _shares(story.cluster)["m1"]
    await story.wait(ms=2_000, pace=500)  # between two heartbeats of m1
    _join(story, NEW, "m2", protocol="consumer", revoke_ms=SLOW_MS)
    await story.until("m2 in", lambda cluster: len(_members(cluster)) == 2, pace=20)
    facts, members = _facts(story.cluster), _members(story.cluster)
    epochs = (facts["epoch"], facts["target_epoch"], _epochs(story.cluster))
    story.check("raised", epochs == (2, 2, {"m1": 1, "m2": 2}), focus=SHIPPING)
    waits = members["m2"]["state"] == "UNRELEASED_PARTITIONS" and not members["m2"]["assigned"]
    story.check("waits", waits and _shares(story.cluster)["m1"] == ALL, focus=SHIPPING)
    await story.ask("old-epoch", right=1, focus=SHIPPING)
    story.do("produce", topic="orders", partition=before[-1], records=3)
    read = await story.until_event("consumed", group=NEW, pace=10)
    story.check("reads-on", read["member"] == "m1" and read["records"] == 3, focus=SHIPPING)
    arguments: dict[str, Value] = {
        "topic": "orders",
        "partition": before[-1],
        "offset": 3,
        "epoch": 1,
    }
    await story.finished(story.do("commit_offset", group=NEW, member="m1", **arguments), pace=10)
    still = _epochs(story.cluster)["m1"] == 1
    story.check("commits", still, focus=SHIPPING)
    revoked = await story.until_event("partitions_revoked", group=NEW, member="m1", pace=1_000)
    going, member = sorted(map(_number, revoked["partitions"])), _members(story.cluster)["m1"]
    asked = len(going) == 3 and before[-1] in going and member["state"] == "UNREVOKED_PARTITIONS"
    kept = sorted(set(before) - set(going))
    numbers = {"going": " ".join(map(str, going)), "kept": " ".join(map(str, kept))}
    story.check("asked", asked and member["epoch"] == 1, focus=SHIPPING, **numbers)
    story.check("not-yet", _shares(story.cluster)["m2"] == [], focus=SHIPPING)
    await story.say("two-steps", focus=SHIPPING, kept=numbers["kept"])
    await story.until("m1 in 2", lambda cluster: _epochs(cluster)["m1"] == 2, pace=5)
    story.check("released", _shares(story.cluster) == {"m1": kept, "m2": []}, focus=SHIPPING)
    await story.until("two", lambda cluster: _is_stable(cluster, 2), pace=1_000)
    story.check("got", _shares(story.cluster) == {"m1": kept, "m2": going}, focus=SHIPPING)
    await story.say("no-barrier", focus=SHIPPING)


async def _slow_member(story: Story, coordinator: int, pause_ms: int) -> None:
    """A third member joins; m2 is as slow as it was in the classic group."""
    before = _shares(story.cluster)
    await story.ask("who-waits", right=2, focus=SHIPPING)
    _join(story, NEW, "m3", protocol="consumer")
    await story.until(
        "m3 has one", lambda cluster: len(_shares(cluster).get("m3", [])) == 1, pace=1_000
    )
    members, shares = _members(story.cluster), _shares(story.cluster)
    given = sorted(set(before["m1"]) - set(shares["m1"]))
    epochs = _epochs(story.cluster) == {"m1": 3, "m2": 2, "m3": 3}
    story.check("one-already", epochs and shares["m3"] == given, focus=SHIPPING, **_shown(shares))
    busy = members["m2"]["state"] == "UNREVOKED_PARTITIONS"
    parked = looks.parked(story.cluster, coordinator, "Rebalance")
    purgatory = ("purgatories", f"purgatory|{coordinator}|Rebalance")
    story.check("watched", busy and parked == 1, focus=purgatory)
    for share in (shares["m1"], shares["m3"]):
        story.do("produce", topic="orders", partition=share[0], records=3)
    readers = {(await story.until_event("consumed", group=NEW, pace=20))["member"] for _ in "12"}
    still_busy = _members(story.cluster)["m2"]["state"] == "UNREVOKED_PARTITIONS"
    story.check("others-read", readers == {"m1", "m3"} and still_busy, focus=SHIPPING)
    await story.say("slow", focus=SHIPPING, ms=pause_ms)
    await story.until("three", lambda cluster: _is_stable(cluster, 3), pace=2_000)
    after = _shares(story.cluster)
    sticky = all(set(after[member]) < set(before[member]) for member in before)
    story.check("sticky", sticky, focus=SHIPPING, **_shown(after))
    await story.say("assignor", focus=SHIPPING)


async def _vanish(story: Story) -> None:
    """A member is killed; what is sent in its name is refused from the end of its session on."""
    before = _shares(story.cluster)
    await story.say("vanish", focus=SHIPPING)
    story.do("vanish", group=NEW, member="m1")
    await story.wait(ms=3_000, pace=1_000)
    commit: dict[str, Value] = {
        "topic": "orders",
        "group": NEW,
        "partition": before["m1"][0],
        "offset": 0,
    }
    await story.finished(story.do("commit_offset", member="m1", **commit), pace=10)
    story.check("still-member", "m1" in _shares(story.cluster), focus=SHIPPING)
    failed = await story.until_event("member_removed", group=NEW, pace=5_000)
    story.check("failed", failed["reason"] == "its session has ended", focus=SHIPPING)
    refused = await _refusal(story, member="m1", **commit)
    unknown = refused == "UNKNOWN_MEMBER_ID" and _facts(story.cluster)["epoch"] == 4
    story.check("unknown", unknown, focus=SHIPPING)
    await story.ask("stale-question", right=1, focus=SHIPPING)
    refused = await _refusal(story, member="m2", epoch=2, **commit)
    story.check("stale", refused == "STALE_MEMBER_EPOCH", focus=SHIPPING)
    await story.until("two", lambda cluster: _is_stable(cluster, 2), pace=1_000)
    after = _shares(story.cluster)
    kept = all(set(before[member]) < set(after[member]) for member in after)
    in_four = _epochs(story.cluster) == {"m2": 4, "m3": 4}
    story.check("taken-over", kept and in_four, focus=SHIPPING, **_shown(after))


async def _refusal(story: Story, **arguments: Any) -> str:
    """Commit an offset; return the error code."""
    act = story.do("commit_offset", **arguments)
    failed = await story.until_event("client_failed", do="commit_offset", pace=10)
    await story.finished(act, may_fail=True)
    return str(failed["error"]).partition(":")[0]


async def _leave(story: Story) -> None:
    """A member that ends in order is removed at once."""
    story.do("leave_group", group=NEW, member="m3")
    await story.until("m3 gone", lambda cluster: "m3" not in _shares(cluster), 1_000, pace=50)
    story.check("left", _facts(story.cluster)["epoch"] == 5, focus=SHIPPING)
    await story.until("one", lambda cluster: _is_stable(cluster, 1), pace=1_000)


async def _records(story: Story) -> None:
    """The group is what its records say."""
    records = looks.group_records(story.cluster, NEW)
    newest = {(type(each.key), getattr(each.key, "member_id", "")): each.value for each in records}
    members = {each["member"]: each["epoch"] for each in _members(story.cluster).values()}
    stored = {
        member: value.member_epoch
        for (_, member), value in newest.items()
        if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
    }
    (epoch,) = (v.epoch for v in newest.values() if isinstance(v, ConsumerGroupMetadataValue))
    story.check("log", (epoch, stored) == (5, members), focus=SHIPPING, records=len(records))
    gone = Counter(member for (_, member), value in newest.items() if value is None)
    story.check("tombstones", sorted(gone.values()) == [3, 3], focus=SHIPPING)
    await story.say("stored", focus=SHIPPING)


async def _upgrade(story: Story) -> None:
    """The classic group changes its protocol while it has members."""
    await story.say("upgrade", focus=BILLING)
    before = _shares(story.cluster, OLD)
    _join(story, OLD, "m4", protocol="consumer")
    await story.until_event("classic_group_upgraded", group=OLD, pace=50)
    await story.until("m4 in", lambda cluster: "m4" in _shares(cluster, OLD), pace=5)
    kept = _shares(story.cluster, OLD) == {**before, "m4": []}
    is_new = _facts(story.cluster, OLD)["type"] == "consumer"
    story.check("upgraded", kept and is_new, focus=BILLING)
    await story.until(
        "m4 has one", lambda cluster: len(_shares(cluster, OLD)["m4"]) == 1, pace=1_000
    )
    epoch, members = _facts(story.cluster, OLD)["epoch"], _members(story.cluster, OLD)
    follows, is_busy = members["m4"]["epoch"] == epoch, members["m2"]["epoch"] < epoch
    story.check("without-m2", follows and is_busy, focus=BILLING)
    await story.wait(ms=1, pace=1)  # until the response has arrived


CHAPTER = Chapter(name="consumer-groups", number=16, seed=16, play=play)
