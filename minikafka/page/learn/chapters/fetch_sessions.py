"""Chapter 11: a follower fetches a thousand partitions: 24,000 bytes once, then some 60."""

from __future__ import annotations

from minikafka.page.learn import looks
from minikafka.page.learn.messages import WireMessage
from minikafka.page.learn.story import Chapter, Story
from minikafka.testing.simulator.cluster import SimCluster

PARTITIONS = 1_000
A_PARTITION = 24  # bytes: partition 4, fetch offset 8, log start offset 8, maximum of bytes 4
FETCHES = ("purgatories", "purgatory|1|Fetch")
EVICTION_MS = 125_000  # two minutes, and some seconds
SETTINGS = {
    "inter.broker.protocol.version": "2.0",  # Fetch version 8, whose layout the chapter explains
    "auto.leader.rebalance.enable": "false",  # broker 1 shall keep all leaders
    "replica.fetch.wait.max.ms": "4000",  # fewer of the requests that find nothing
    "max.incremental.fetch.session.cache.slots": "2",
}


async def play(story: Story) -> None:
    await _begin(story)
    await _full_then_incremental(story)
    await _one_record(story)
    await _start_again(story)
    await _two_slots(story)


async def _fetch(story: Story, pace: float = 1) -> WireMessage:
    """Wait until the follower sends a Fetch request."""
    return await story.until_message("Fetch", source="broker-2", arrived=False, pace=pace)


async def _response(story: Story, pace: float = 1) -> WireMessage:
    """Wait until a Fetch response has arrived at the follower."""
    return await story.until_message("Fetch", target="broker-2", is_request=False, pace=pace)


def _session(cluster: SimCluster) -> dict[str, int | bool]:
    """Return the session that a follower has used last."""
    return [each for each in looks.sessions(cluster, 1) if each["of_follower"]][-1]


def _owners(cluster: SimCluster) -> list[str]:
    """Return for each session of broker 1 whether a follower or a consumer has it."""
    sessions = looks.sessions(cluster, 1)
    return sorted("follower" if each["of_follower"] else "consumer" for each in sessions)


async def _begin(story: Story) -> None:
    """A thousand partitions, all of them led by broker 1."""
    await story.say("intro", focus=("stage",))
    await story.until("up", looks.is_up, pace=50)
    created = story.do("create_topic", topic="orders", partitions=PARTITIONS, replicas=2)
    await story.finished(created, pace=50)
    await story.wait(ms=1_000, pace=500)
    await story.say("restart", focus=("host|broker-2",))
    await story.finished(story.do("stop", broker=2), pace=100)
    led = story.cluster.nodes()[1].entities.partitions
    story.check("all-on-one", sum(each.is_leader for each in led) >= PARTITIONS)
    story.do("start", broker=2)


async def _full_then_incremental(story: Story) -> None:
    """The first request names every partition, the next one none."""
    full = await _fetch(story, pace=10)
    size = full.size_bytes
    fits = PARTITIONS * A_PARTITION < size < PARTITIONS * A_PARTITION + 200
    story.check("full", fits, focus=("wire",), size=size)
    await story.say("twenty-four", focus=("wire",))
    response = await _response(story, pace=12)
    session = _session(story.cluster)
    kept = session["partitions"] == PARTITIONS
    story.check("session", kept, focus=("sessions",), id=session["id"])
    await story.say("full-response", focus=("wire",), size=response.size_bytes)
    await story.ask("next-size", right=2)
    incremental = await _fetch(story)
    small = incremental.size_bytes
    story.check("incremental", small < 100, focus=("wire",), size=small, full=size)
    await story.say("names-nothing", focus=FETCHES)
    empty = await _response(story, pace=1_000)
    story.check("empty", empty.size_bytes < 40, focus=("wire",), size=empty.size_bytes)
    await story.say("nothing-new", focus=("sessions",), size=size * 2)


async def _one_record(story: Story) -> None:
    """One record is written: one partition is in the response, and in the next request."""
    before = _session(story.cluster)["epoch"]
    story.do("produce", topic="orders", partition=7, records=1, value="hello")
    response = await _response(story)
    story.check("one-partition", response.size_bytes < 300, size=response.size_bytes)
    request = await _fetch(story)
    few = request.size_bytes < 150
    story.check("one-position", few, focus=("wire",), size=request.size_bytes)
    await story.say("what-changed", focus=("wire",))
    await story.wait(ms=5_000, pace=1_000)
    after = _session(story.cluster)["epoch"]
    story.check("epoch", after > before, focus=("sessions",), before=before, after=after)
    await story.say("forget", focus=("sessions",))
    await story.finished(story.do("create_topic", topic="draft", replicas=2, partitions=2))
    await story.wait(ms=5_000, pace=1_000)
    session = _session(story.cluster)
    story.check("added", session["partitions"] == PARTITIONS + 1, focus=("sessions",))
    await story.finished(story.do("delete_topic", topic="draft"))
    await story.wait(ms=5_000, pace=1_000)
    later = _session(story.cluster)
    forgotten = later["partitions"] == PARTITIONS and later["id"] == session["id"]
    story.check("forgotten", forgotten, focus=("sessions",))


async def _start_again(story: Story) -> None:
    """The connection is reset: the two halves of the session no longer fit."""
    old = _session(story.cluster)
    await story.ask("reset", right=0)
    story.do("reset", one="broker-1", other="broker-2")
    again = await _fetch(story, pace=100)
    size = again.size_bytes
    story.check("full-again", size > PARTITIONS * A_PARTITION, focus=("wire",), size=size)
    await _response(story, pace=1_000)
    new = _session(story.cluster)
    story.check("new-session", new["id"] != old["id"], focus=("sessions",))
    await story.say("two-halves", focus=("sessions",))


async def _two_slots(story: Story) -> None:
    """Broker 1 keeps two sessions. A consumer gets the one that was not used for two minutes."""
    await story.finished(story.do("create_topic", topic="bills", replicas=2, partitions=2))
    await story.wait(ms=500, pace=300)  # until all brokers know the topic
    story.do("join_group", topic="bills", group="billing", member="m1")
    await story.wait(ms=3_000, pace=500)
    followers = _owners(story.cluster) == ["follower", "follower"]
    story.check("no-slot", followers, focus=("sessions",))
    await story.say("stale", focus=("sessions",))
    await story.wait(ms=EVICTION_MS, pace=20_000)
    shared = _owners(story.cluster) == ["consumer", "follower"]
    story.check("gives-way", shared, focus=("sessions",))
    await story.ask("back", right=1)
    await story.finished(story.do("stop", broker=2), pace=100)
    await story.finished(story.do("start", broker=2), pace=50)
    await story.wait(ms=3_000, pace=500)
    followers = _owners(story.cluster) == ["follower", "follower"]
    story.check("follower-first", followers, focus=("sessions",))
    await story.say("end", focus=("sessions",))


CHAPTER = Chapter(
    name="fetch-sessions", number=11, seed=11, brokers=2, settings=SETTINGS, play=play
)
