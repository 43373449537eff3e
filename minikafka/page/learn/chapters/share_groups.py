"""Chapter 17: a share group (KIP-932) delivers records one by one, as a queue does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minikafka.core.share.in_flight import RecordState
from minikafka.core.share.persister import StateBatch
from minikafka.core.share.records import ShareSnapshot, ShareUpdate
from minikafka.kernel.cluster import TopicPartition
from minikafka.page.learn import looks
from minikafka.page.learn.story import Chapter, Story
from minikafka.testing.simulator.cluster import SimCluster

JOBS = TopicPartition("jobs", 0)
REPORTS, WORKERS = "reports", "workers"  # a consumer group, and a share group
QUEUE = ("groups", f"group||{WORKERS}")
LOCK_MS = 30_000
SESSION_MS = 45_000
LIMIT = 5  # deliveries of a record
ACQUIRED, ACKNOWLEDGED = RecordState.ACQUIRED.name, RecordState.ACKNOWLEDGED.name


async def play(story: Story) -> None:
    await _consumer_group(story)
    await _join(story)
    first, second, third = await _acquire(story)
    await _start_offset(story, first, second, third)
    await _release_and_reject(story, third)
    await _lock(story)
    await _vanish(story)
    holder, other = await _store(story)
    await _next_leader(story, holder, other)
    await _poison(story)
    await story.say("end", focus=QUEUE)


def _known(cluster: SimCluster) -> dict[str, Any]:
    """Return what the leader of the partition knows of the share group's records."""
    return looks.share_partition(cluster, WORKERS, JOBS) or {"records": {}, "start": -1, "end": -1}


def _record(cluster: SimCluster, offset: int) -> tuple[str, str, int]:
    """Return the state of a record, the client id of its member, and how often it was delivered.
    Raises KeyError for a record that is not in flight."""
    facts = looks.group(cluster, WORKERS) or {"members": []}
    names = {each["member"]: each["client"] for each in facts["members"]}
    state, member, count = _known(cluster)["records"][offset]
    return state, names.get(member, ""), count


def _shares(cluster: SimCluster, group: str) -> dict[str, list[int]]:
    """Return the partitions of each member by its client id."""
    facts = looks.group(cluster, group) or {"members": []}
    names = {each["member"]: each["client"] for each in facts["members"]}
    return {names[member]: share for member, share in looks.shares(cluster, group).items()}


def _produce(story: Story, records: int) -> None:
    story.do("produce", topic=JOBS.topic, records=records)


async def _acquired(story: Story, *, pace: float = 20) -> Mapping[str, Any]:
    """Wait until a member has acquired records; return the event."""
    return await story.until_event("acquired", group=WORKERS, pace=pace)


def _decide(story: Story, member: str, acknowledgement: str) -> None:
    story.do("acknowledge", group=WORKERS, member=member, acknowledgement=acknowledgement)


async def _settle(story: Story, member: str, acknowledgement: str = "accept") -> Mapping[str, Any]:
    """Acknowledge what a member holds; return the event."""
    _decide(story, member, acknowledgement)
    return await story.until_event("acknowledged", group=WORKERS, member=member, pace=20)


async def _consumer_group(story: Story) -> None:
    """Two consumers and one partition: one of them has nothing to do."""
    await story.say("intro", focus=("stage",))
    await story.until("up", looks.is_up, pace=50)
    created = story.do("create_topic", topic=JOBS.topic, assignment="1,2,3")
    await story.finished(created, pace=20)
    for member in ("c1", "c2"):
        story.do("join_group", topic=JOBS.topic, group=REPORTS, member=member, protocol="consumer")

    def are_in(cluster: SimCluster) -> bool:
        return sorted(_shares(cluster, REPORTS).values()) == [[], [0]]

    await story.until("two consumers", are_in, pace=1_000)
    shares = _shares(story.cluster, REPORTS)
    (reader,) = (member for member, share in shares.items() if share)
    (idle,) = {"c1", "c2"} - {reader}
    focus = ("groups", f"group||{REPORTS}")
    story.check("idle", shares[idle] == [], focus=focus, reader=reader, idle=idle)
    await story.say("why", focus=focus)
    for member in ("c1", "c2"):
        story.do("leave_group", group=REPORTS, member=member)
    await story.until("no consumers", lambda cluster: not _shares(cluster, REPORTS), pace=50)


async def _join(story: Story) -> None:
    """Three share consumers have the same partition."""
    for member in ("w1", "w2", "w3"):
        story.do(
            "join_share_group",
            topic=JOBS.topic,
            group=WORKERS,
            member=member,
            max_records=2,
            acknowledgement="by_hand",
        )
    everybody = {"w1": [0], "w2": [0], "w3": [0]}
    await story.until("three", lambda cluster: _shares(cluster, WORKERS) == everybody, pace=1_000)
    story.check("all-three", _shares(story.cluster, WORKERS) == everybody, focus=QUEUE)
    (made,) = looks.share_records(story.cluster, WORKERS)
    story.check("state-made", isinstance(made, ShareSnapshot), focus=QUEUE)
    await story.until("led", lambda cluster: _known(cluster)["start"] == 0, pace=200)
    parked = looks.parked(story.cluster, 1, "ShareFetch")
    focus = ("purgatories", "purgatory|1|ShareFetch")
    story.check("parked", parked > 0, focus=focus, fetches=parked)


async def _acquire(story: Story) -> list[str]:
    """Each member gets other records. Return the members in the order of their records."""
    _produce(story, 6)
    events = [await _acquired(story) for _ in range(3)]
    events.sort(key=lambda event: event["offsets"])
    members = [event["member"] for event in events]
    told = [[_record(story.cluster, offset) for offset in event["offsets"]] for event in events]
    held = told == [[(ACQUIRED, member, 1)] * 2 for member in members]
    other = [event["offsets"] for event in events] == [[0, 1], [2, 3], [4, 5]]
    first, second, third = members
    names = {"first": first, "second": second, "third": third}
    story.check("each-other", held and other and len({*members}) == 3, focus=QUEUE, **names)
    await story.say("acquired", focus=QUEUE)
    return members


async def _start_offset(story: Story, first: str, second: str, third: str) -> None:
    """The start offset waits for the oldest record that is not done."""
    names = {"first": first, "second": second}
    await _settle(story, second)
    await story.ask("where-start", right=0, focus=QUEUE, **names)
    known = _known(story.cluster)
    done = _record(story.cluster, 2)[0] == _record(story.cluster, 3)[0] == ACKNOWLEDGED
    bounds = (known["start"], known["end"]) == (0, 5)
    story.check("start-stays", bounds and done, focus=QUEUE, **names)
    await _settle(story, first)
    known = _known(story.cluster)
    moved = known["start"] == 4 and sorted(known["records"]) == [4, 5]
    story.check("start-moves", moved, focus=QUEUE, **names)
    await story.say("in-flight", focus=QUEUE, third=third)


async def _release_and_reject(story: Story, member: str) -> None:
    _decide(story, member, "release")
    event = await _acquired(story)
    again = event["offsets"] == [4, 5] and event["deliveries"] == [2, 2]
    names = {"member": member, "next": event["member"]}
    story.check("released", again and event["member"] != member, focus=QUEUE, **names)
    await _settle(story, event["member"], "reject")
    known = _known(story.cluster)
    gone = known["start"] == 6 and not known["records"]
    story.check("rejected", gone, focus=QUEUE, **names)


async def _lock(story: Story) -> None:
    """A member is too slow: its lock ends."""
    _produce(story, 2)
    slow, begun_us = (await _acquired(story))["member"], story.now_us
    await story.ask("too-slow", right=1, focus=QUEUE, slow=slow)
    event = await _acquired(story, pace=2_000)
    ms, other = (story.now_us - begun_us) // 1_000, event["member"]
    again = event["offsets"] == [6, 7] and event["deliveries"] == [2, 2]
    late = other != slow and abs(ms - LOCK_MS) < 100
    story.check("lock-ended", again and late, focus=QUEUE, slow=slow, other=other, ms=ms)
    refused = (await _settle(story, slow)).get("error", "")
    story.check("late", refused.startswith("INVALID_RECORD_STATE"), focus=QUEUE, slow=slow)
    await _settle(story, other)
    story.check("by-other", _known(story.cluster)["start"] == 8, focus=QUEUE, other=other)
    await story.say("twice", focus=QUEUE)


async def _vanish(story: Story) -> None:
    """A member is killed: its connection ends, and with it what it has acquired."""
    _produce(story, 2)
    killed = (await _acquired(story))["member"]
    await story.say("vanish", focus=QUEUE, killed=killed)
    begun_us = story.now_us
    story.do("vanish", group=WORKERS, member=killed)
    event = await _acquired(story)
    ms, other = (story.now_us - begun_us) // 1_000, event["member"]
    again = event["offsets"] == [8, 9] and event["deliveries"] == [2, 2] and other != killed
    story.check("connection", again and ms < 1_000, focus=QUEUE, other=other, ms=ms)
    still = killed in _shares(story.cluster, WORKERS)
    story.check("still-member", still, focus=QUEUE, killed=killed)
    await _settle(story, other)
    removed = await story.until_event("member_removed", group=WORKERS, pace=5_000)
    ended = removed["reason"] == "its session has ended"
    seconds = (story.now_us - begun_us) // 1_000_000
    ended = ended and abs(seconds - SESSION_MS // 1_000) <= 5
    story.check("session", ended, focus=QUEUE, killed=killed, seconds=seconds)


async def _store(story: Story) -> tuple[str, str]:
    """What is accepted is stored before it counts. Return who holds 10 and 11, and the other."""
    _produce(story, 4)
    events = sorted([await _acquired(story) for _ in "12"], key=lambda event: event["offsets"])
    holder, other = (event["member"] for event in events)
    assert [event["offsets"] for event in events] == [[10, 11], [12, 13]]
    await _settle(story, other)
    newest = looks.share_records(story.cluster, WORKERS)[-1]
    accepted = StateBatch(12, 13, RecordState.ACKNOWLEDGED, 1)
    stored = isinstance(newest, ShareUpdate) and newest.batches == (accepted,)
    story.check("stored", stored, focus=QUEUE, holder=holder, other=other)
    await story.say("state-topic", focus=QUEUE, holder=holder)
    return holder, other


async def _next_leader(story: Story, holder: str, other: str) -> None:
    """The leader is killed. The next one knows what was accepted, not what was acquired."""
    await story.ask("which-again", right=2, focus=QUEUE)
    story.do("kill", broker=1)
    event = await _acquired(story, pace=500)
    leader, start = _known(story.cluster)["leader"], _known(story.cluster)["start"]
    again = (event["member"], event["offsets"]) == (other, [10, 11])
    is_led = looks.is_led(story.cluster, JOBS, leader) and leader != 1
    names = {"leader": leader, "other": other, "holder": holder}
    story.check("next-leader", again and is_led and start == 10, focus=QUEUE, **names)
    kept = _record(story.cluster, 12)[0] == _record(story.cluster, 13)[0] == ACKNOWLEDGED
    story.check("not-again", kept, focus=QUEUE)
    story.check("first-again", event["deliveries"] == [1, 1], focus=QUEUE)
    await _settle(story, other)
    story.check("done", _known(story.cluster)["start"] == 14, focus=QUEUE, other=other)
    refused = (await _settle(story, holder)).get("error", "")
    story.check("holder-late", refused == "NETWORK_EXCEPTION", focus=QUEUE, holder=holder)
    await story.say("at-least-once", focus=QUEUE)


async def _poison(story: Story) -> None:
    """A record at which every member fails is archived after its last delivery."""
    _produce(story, 1)
    deliveries = []
    for _ in range(LIMIT):
        event = await _acquired(story)
        deliveries += event["deliveries"]
        _decide(story, event["member"], "release")
    story.check("poison", deliveries == [*range(1, LIMIT + 1)], focus=QUEUE)
    await story.until("archived", lambda cluster: _known(cluster)["start"] == 15, pace=20)
    story.check("archived", not _known(story.cluster)["records"], focus=QUEUE)
    await story.wait(ms=1, pace=1)  # until the response has arrived


CHAPTER = Chapter(name="share-groups", number=17, seed=17, play=play)
