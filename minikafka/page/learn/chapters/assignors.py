"""Chapter 15: a member joins a group; what moves, and who stops reading, by four assignors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import Any

from minikafka.page.learn import looks
from minikafka.page.learn.story import Chapter, Story
from minikafka.testing.simulator.cluster import SimCluster

ON_THREE_BROKERS = "1;2;3;1;2;3"
PARTITIONS = 6
LEAST_MOVES = 2  # from three partitions for each of two members to two for each of three
GROUPS = ("groups",)


async def play(story: Story) -> None:
    await _two_members_each(story)
    await _range(story)
    await _round_robin(story)
    await _sticky(story)
    await _cooperative(story)
    await _cooperative_leave(story)
    await _two_topics(story)
    await story.say("end", focus=GROUPS)


def _focus(group: str) -> tuple[str, ...]:
    return ("groups", f"group||{group}")


def _shares(cluster: SimCluster, group: str) -> dict[str, list[int]]:
    """Return the partitions of each member by its name, with which its member id begins."""
    return {member[:2]: found for member, found in sorted(looks.shares(cluster, group).items())}


def _facts(cluster: SimCluster, group: str) -> dict[str, Any]:
    return looks.group(cluster, group) or {"state": "unknown", "generation": 0}


def _is_stable(cluster: SimCluster, group: str, members: int, partitions: int = PARTITIONS) -> bool:
    """Return whether a group has so many members, which have all partitions."""
    shares = _shares(cluster, group)
    complete = len(shares) == members and len([*chain(*shares.values())]) == partitions
    return complete and _facts(cluster, group)["state"] == "Stable"


def _moves(before: Mapping[str, list[int]], after: Mapping[str, list[int]]) -> int:
    """Return how many partitions have another owner."""
    return sum(len(set(share) - set(after.get(member, []))) for member, share in before.items())


def _shown(shares: Mapping[str, list[int]]) -> dict[str, str]:
    """Return the shares as values of a text: {m1} becomes "0 1 2"."""
    return {member: " ".join(map(str, share)) or "-" for member, share in shares.items()}


def _join(story: Story, group: str, member: str, assignor: str) -> None:
    story.do("join_group", topic="orders", group=group, member=member, assignor=assignor)


async def _stable(story: Story, group: str, members: int) -> None:
    """Wait until a group has so many members and is stable."""
    reached = partial(_is_stable, group=group, members=members)
    await story.until(f"{members} in {group}", reached, pace=500)
    await story.wait(ms=5, pace=5)  # until the members have their assignment


async def _two_members_each(story: Story) -> None:
    """Four groups of two members, one for each assignor."""
    await story.say("intro", focus=("stage",))
    await story.until("up", looks.is_up, pace=50)
    created = story.do("create_topic", topic="orders", assignment=ON_THREE_BROKERS)
    await story.finished(created, pace=20)
    await story.say("who-computes", focus=("stage",))
    for group in ("range", "turns", "sticky", "coop"):
        assignor = {"turns": "roundrobin", "coop": "cooperative-sticky"}.get(group, group)
        for count in (1, 2):
            _join(story, group, f"m{count}", assignor)
            await _stable(story, group, count)
    shares = [_shares(story.cluster, group) for group in ("range", "turns", "sticky", "coop")]
    halves = all(sorted(map(len, each.values())) == [3, 3] for each in shares)
    story.check("halves", halves, focus=GROUPS)
    await story.ask("least", right=0, focus=GROUPS)


async def _range(story: Story) -> None:
    before = _shares(story.cluster, "range")
    story.check("blocks", [*before.values()] == [[0, 1, 2], [3, 4, 5]], focus=_focus("range"))
    await story.say("range-rule", focus=_focus("range"))
    _join(story, "range", "m3", "range")
    await _stable(story, "range", 3)
    after = _shares(story.cluster, "range")
    moves = _moves(before, after)
    blocks = [*after.values()] == [[0, 1], [2, 3], [4, 5]]
    story.check("range-moves", blocks and moves == 3, focus=_focus("range"), moves=moves)


async def _round_robin(story: Story) -> None:
    before = _shares(story.cluster, "turns")
    story.check("dealt", [*before.values()] == [[0, 2, 4], [1, 3, 5]], focus=_focus("turns"))
    await story.ask("turns-question", right=2, focus=_focus("turns"))
    _join(story, "turns", "m3", "roundrobin")
    await _stable(story, "turns", 3)
    after = _shares(story.cluster, "turns")
    moves = _moves(before, after)
    dealt = [*after.values()] == [[0, 3], [1, 4], [2, 5]]
    story.check("turns-moves", dealt and moves == 4, focus=_focus("turns"), moves=moves)
    await story.say("why-moves-cost", focus=_focus("turns"))


async def _sticky(story: Story) -> None:
    """Few moves; but every member gives up all its partitions first."""
    group = "sticky"
    before = _shares(story.cluster, group)
    generation = _facts(story.cluster, group)["generation"]
    await story.say("sticky-memory", focus=_focus(group))
    _join(story, group, "m3", "sticky")
    first = await story.until_event("partitions_revoked", group=group, pace=500)
    begun_us = story.now_us
    await story.say("eager", focus=_focus(group), member=first["member"])
    second = await story.until_event("partitions_revoked", group=group, pace=500)
    given_up = {each["member"]: len(each["partitions"]) for each in (first, second)}
    state = _facts(story.cluster, group)["state"]
    stopped = given_up == {"m1": 3, "m2": 3} and state == "PreparingRebalance"
    story.check("all-given-up", stopped, focus=_focus(group))
    await _stable(story, group, 3)
    after = _shares(story.cluster, group)
    moves, pause_ms = _moves(before, after), (story.now_us - begun_us) // 1_000
    story.check("sticky-moves", moves == LEAST_MOVES, focus=_focus(group), **_shown(after))
    one_round = _facts(story.cluster, group)["generation"] == generation + 1
    story.check("one-round", one_round, focus=_focus(group))
    await story.say("stop-the-world", focus=_focus(group), ms=pause_ms)


async def _cooperative(story: Story) -> None:
    """The same moves in two rebalances: first revoke, then assign. What stays is read meanwhile."""
    group = "coop"
    before = _shares(story.cluster, group)
    generation = _facts(story.cluster, group)["generation"]
    await story.ask("keep-reading", right=1, focus=_focus(group))
    _join(story, group, "m3", "cooperative-sticky")
    first = await story.until_event("partitions_revoked", group=group, pace=500)
    second = await story.until_event("partitions_revoked", group=group, pace=500)
    given_up = {each["member"]: each["partitions"] for each in (first, second)}
    one_each = sorted(map(len, given_up.values())) == [1, 1] and given_up.keys() == {"m1", "m2"}
    names = {"first": first["partitions"][0], "second": second["partitions"][0]}
    story.check("one-each", one_each, focus=_focus(group), **names)
    once = _facts(story.cluster, group)["generation"] == generation + 1
    nothing = not _shares(story.cluster, group)["m3"]
    story.check("first-round", once and nothing, focus=_focus(group))
    await story.say("why-two", focus=_focus(group))
    kept = (set(before["m1"]) - {_number(given_up["m1"][0])}).pop()
    story.do("produce", topic="orders", partition=kept, records=3)
    read = await story.until_event("consumed", group=group, member="m1", pace=50)
    between = _facts(story.cluster, group)["state"] == "PreparingRebalance"
    story.check("read-meanwhile", between and read["records"] == 3, focus=_focus(group))
    await _stable(story, group, 3)
    after = _shares(story.cluster, group)
    moved = sorted(map(_number, chain(*given_up.values())))
    story.check("second-round", after["m3"] == moved, focus=_focus(group), **_shown(after))
    twice = _facts(story.cluster, group)["generation"] == generation + 2
    story.check("two-rounds", twice and _moves(before, after) == LEAST_MOVES, focus=_focus(group))
    await story.say("price", focus=_focus(group))


def _number(partition: str) -> int:
    """Return the number of a partition that is named like ``orders-3``."""
    return int(partition.rpartition("-")[2])


async def _cooperative_leave(story: Story) -> None:
    """Partitions without an owner are assigned in the first rebalance: none has to be revoked."""
    group = "coop"
    before = _shares(story.cluster, group)
    generation = _facts(story.cluster, group)["generation"]
    await story.ask("leave", right=0, focus=_focus(group))
    story.do("leave_group", group=group, member="m3")
    await story.until_event("member_left", group=group, pace=50)
    await _stable(story, group, 2)
    after = _shares(story.cluster, group)
    kept = all(set(before[member]) <= set(after[member]) for member in after)
    once = _facts(story.cluster, group)["generation"] == generation + 1
    story.check("left", kept and once, focus=_focus(group), **_shown(after))


async def _two_topics(story: Story) -> None:
    """Two topics of three partitions for two members: range gives the first one more of each."""
    for topic in ("visits", "clicks"):
        created = story.do("create_topic", topic=topic, assignment="1;2;3")
        await story.finished(created, pace=20)
    await story.say("two-topics", focus=GROUPS)
    for group, assignor in (("both-range", "range"), ("both-turns", "roundrobin")):
        for count in (1, 2):
            story.do(
                "join_group",
                topic="visits",
                second_topic="clicks",
                group=group,
                member=f"m{count}",
                assignor=assignor,
            )
            await _stable(story, group, count)
    ranges = [len(share) for share in _shares(story.cluster, "both-range").values()]
    story.check("range-uneven", ranges == [4, 2], focus=_focus("both-range"))
    turns = [len(share) for share in _shares(story.cluster, "both-turns").values()]
    story.check("turns-even", turns == [3, 3], focus=_focus("both-turns"))
    await story.say("why-range", focus=_focus("both-range"))
    await story.say("default", focus=_focus("both-range"))


CHAPTER = Chapter(name="assignors", number=15, seed=15, play=play)
