"""Chapter 10: consumers share a topic; one of them vanishes, and its heartbeat is missed."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import Any

from minikafka.page.learn import looks
from minikafka.page.learn.story import Chapter, Story
from minikafka.testing.simulator.cluster import SimCluster

ALL = list(range(8))
ON_THREE_BROKERS = "1;2;3;1;2;3;1;2"
SESSION_MS = 10_000
GROUP, STICKY, RANGE = "billing", "audit", "report"
BILLING, AUDIT, REPORT = (("groups", f"group||{name}") for name in (GROUP, STICKY, RANGE))


async def play(story: Story) -> None:
    first, coordinator = await _first_member(story)
    second = await _second_member(story, first, coordinator)
    third = await _heartbeats(story, first, second, coordinator)
    await _vanish(story, second, {first, third})
    await _sticky(story)
    await _leave(story, first)


def _facts(cluster: SimCluster, name: str = GROUP) -> dict[str, Any]:
    return looks.group(cluster, name) or {"state": "unknown", "generation": 0, "members": []}


def _is_stable(cluster: SimCluster, members: int, name: str = GROUP) -> bool:
    shares = looks.shares(cluster, name)
    stable = _facts(cluster, name)["state"] == "Stable" and len(shares) == members
    return stable and sorted(chain(*shares.values())) == ALL


def _purgatory(broker: int, name: str) -> tuple[str, ...]:
    return ("purgatories", f"purgatory|{broker}|{name}")


def _join(story: Story, member: str, group: str, assignor: str) -> None:
    story.do(
        "join_group",
        topic="orders",
        group=group,
        member=member,
        session_ms=SESSION_MS,
        assignor=assignor,
    )


async def _first_member(story: Story) -> tuple[str, int]:
    """The first consumer finds the coordinator, joins and gets all partitions."""
    await story.say("intro", focus=("stage",))
    await story.until("up", looks.is_up, pace=50)
    created = story.do("create_topic", topic="orders", assignment=ON_THREE_BROKERS)
    await story.finished(created, pace=20)
    await story.say("group", focus=("stage",))
    _join(story, "m1", GROUP, "roundrobin")
    await story.until_message("JoinGroup", source="client", arrived=False, pace=25)
    await story.say("coordinator", focus=("wire",))
    await story.until("m1 in", lambda cluster: _is_stable(cluster, 1), pace=2)
    facts = _facts(story.cluster)
    (first,) = looks.shares(story.cluster, GROUP)
    coordinator = int(facts["coordinator"])
    story.check("alone", facts["generation"] == 1, focus=BILLING, coordinator=coordinator)
    story.check("leader", facts["leader"] == first, focus=BILLING)
    await story.say("join-sync", focus=("wire",))
    return first, coordinator


async def _second_member(story: Story, first: str, coordinator: int) -> str:
    """The second consumer waits in JoinGroup until the first one has noticed."""
    await story.wait(ms=1_000, pace=300)
    _join(story, "m2", GROUP, "roundrobin")
    await story.until_event("rebalance_prepared", pace=3)
    await story.wait(ms=2, pace=1)
    parked = looks.parked(story.cluster, coordinator, "Rebalance")
    preparing = _facts(story.cluster)["state"] == "PreparingRebalance"
    waiting = _purgatory(coordinator, "Rebalance")
    story.check("parked", preparing and parked == 1, focus=waiting)
    await story.ask("how-told", right=1, focus=waiting)
    await story.until_event("group_stabilized", pace=500)
    await story.wait(ms=1, pace=0.5)  # the responses leave
    await story.say("joined", focus=("wire",))
    await story.until("two", lambda cluster: _is_stable(cluster, 2), pace=2)
    shares = looks.shares(story.cluster, GROUP)
    (second,) = set(shares) - {first}
    story.check("halves", sorted(map(len, shares.values())) == [4, 4], focus=BILLING)
    story.check("generation", _facts(story.cluster)["generation"] == 2, focus=BILLING)
    await story.say("who-computes", focus=BILLING)
    return second


async def _heartbeats(story: Story, first: str, second: str, coordinator: int) -> str:
    """A third consumer joins; then the group is quiet but for its heartbeats."""
    _join(story, "m3", GROUP, "roundrobin")
    await story.until("three", lambda cluster: _is_stable(cluster, 3), pace=700)
    (third,) = set(looks.shares(story.cluster, GROUP)) - {first, second}
    await story.wait(ms=100, pace=100)
    before = _deadlines(story.cluster)
    watches = looks.parked(story.cluster, coordinator, "Heartbeat")
    beating = _purgatory(coordinator, "Heartbeat")
    story.check("three-watches", watches == 3, focus=beating)
    await story.say("heartbeat", focus=beating)
    await story.wait(ms=7_000, pace=1_000)
    after = _deadlines(story.cluster)
    story.check("renewed", all(after[member] > before[member] for member in before))
    await story.say("renewed-why", focus=beating)
    return third


def _deadlines(cluster: SimCluster) -> dict[str, int]:
    members = _facts(cluster)["members"]
    return {each["member"]: each["heartbeat_deadline_ms"] for each in members}


async def _vanish(story: Story, second: str, others: set[str]) -> None:
    """The second consumer dies without a word."""
    kept = {member: set(looks.shares(story.cluster, GROUP)[member]) for member in others}
    await story.say("vanish", focus=BILLING)
    story.do("vanish", group=GROUP, member="m2")
    await story.wait(ms=3_000, pace=1_000)
    story.check("unnoticed", second in looks.shares(story.cluster, GROUP), focus=BILLING)
    await story.ask("when-noticed", right=2)
    orphan = looks.shares(story.cluster, GROUP)[second][0]
    story.do("produce", topic="orders", records=5, partition=orphan)
    failed = await story.until_event("member_failed", pace=1_500)
    told = failed["member"] == second and "has failed, removing it from the group" in str(failed)
    story.check("failed", told, focus=BILLING)
    evicted = _facts(story.cluster)["last_eviction"]
    story.check("evicted", evicted is not None and evicted["member"] == second)
    await story.say("three-reasons", focus=BILLING)
    read = await story.until_event("consumed", group=GROUP, pace=500)
    story.check("read-at-last", read["records"] == 5, focus=BILLING, member=read["member"])
    await story.until("two left", lambda cluster: _is_stable(cluster, 2), pace=500)
    shares = looks.shares(story.cluster, GROUP)
    story.check("taken-over", set(shares) == others, focus=BILLING)
    moved = sum(len(kept[member] - set(shares[member])) for member in others)
    story.check("needless", moved > 0, focus=BILLING, moved=moved)
    await story.say("round-robin", focus=BILLING)


async def _sticky(story: Story) -> None:
    """The same with three consumers that use the sticky assignor, beside three that use range."""
    for count in (1, 2, 3):
        _join(story, f"s{count}", STICKY, "sticky")
        _join(story, f"r{count}", RANGE, "range")
        for name in (STICKY, RANGE):
            joined = partial(_is_stable, members=count, name=name)
            await story.until(f"{count} in {name}", joined, pace=900)
    blocks = sorted(looks.shares(story.cluster, RANGE).values())
    story.check("range", blocks == [[0, 1, 2], [3, 4, 5], [6, 7]], focus=REPORT)
    await story.say("range-why", focus=REPORT)
    before = looks.shares(story.cluster, STICKY)
    await story.ask("sticky", right=1)
    story.do("vanish", group=STICKY, member="s2")
    await story.until_event("member_failed", group=STICKY, pace=2_000)
    await story.until("s2 gone", lambda cluster: _is_stable(cluster, 2, STICKY), pace=500)
    after = looks.shares(story.cluster, STICKY)
    kept = all(set(before[member]) <= set(after[member]) for member in after)
    story.check("kept", kept, focus=AUDIT)
    story.check("balanced", sorted(map(len, after.values())) == [4, 4], focus=AUDIT)
    await story.say("sticky-why", focus=AUDIT)
    await story.say("sticky-steps", focus=AUDIT)


async def _leave(story: Story, first: str) -> None:
    """A consumer that ends in order says so: nobody waits for its session."""
    await story.say("leave", focus=BILLING)
    story.do("leave_group", group=GROUP, member="m1")
    left = await story.until_event("member_left", pace=50)
    story.check("left", left["member"] == first, focus=BILLING)
    await story.until("one left", lambda cluster: _is_stable(cluster, 1), pace=700)
    await story.wait(ms=1, pace=1)  # its response arrives
    await story.say("end", focus=BILLING)


CHAPTER = Chapter(name="rebalance", number=10, seed=10, play=play)
