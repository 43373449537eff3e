"""The views of a broker's inside: wheels, the controller's machines, requests, sessions, quotas."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from minikafka.core.controller.states import machines
from tests.support.browser import OpenPage
from tests.support.page_site import PageSite
from tests.support.parked_operations import ParkedOperations

AT = 1_700_000_000_000
HELLO = {
    "type": "hello", "version": 1, "at": AT, "cluster_id": "inner", "bootstrap": "localhost:9092",
    "minikafka": True, "live": True, "read_only": True, "supervised": [], "brokers_supervised": [],
}  # fmt: skip
PATHS = ("purgatories", "controller", "requests", "sessions", "throttles", "why")
# Buckets by level as {slot: tasks}, of wheels in a page's model.
TASKS_BY_SLOT = """
    const model = await import("/static/views/wheel_model.js");
    const bySlot = (wheels) => Object.fromEntries(wheels.wheels.map((wheel) => [wheel.level,
        Object.fromEntries([...wheel.buckets].filter(([, bucket]) => model.count(bucket))
            .map(([slot, bucket]) => [slot, model.count(bucket)]))]));
"""


def state(
    *entities: tuple[str, str, dict[str, Any]], broker: int | None = 1, at: int = AT
) -> dict[str, Any]:
    changed = [{"kind": kind, "name": name, "facts": facts} for kind, name, facts in entities]
    return {
        "type": "state", "at": at, "broker": broker, "reset": False,
        "changed": changed, "removed": [],
    }  # fmt: skip


def by_slot(facts: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return the tasks of each level by slot, of levels that have some."""
    wheels = {
        str(wheel["level"]): {str(row["slot"]): row["tasks"] for row in wheel["buckets"]}
        for wheel in facts["wheels"]
    }
    return {level: slots for level, slots in wheels.items() if slots}


def transition(before: str, after: str, at: int, replica: int | None = None) -> dict[str, Any]:
    return {
        "time_ms": at, "controller_epoch": 3, "partition": "orders-0", "replica": replica,
        "before": before, "after": after, "leader": 2, "leader_epoch": 5, "isr": [2, 3],
    }  # fmt: skip


def controller(**facts: Any) -> tuple[str, str, dict[str, Any]]:
    known = {
        "active": True, "controller": 1, "epoch": 3, "state": "IDLE", "queue": 0, "queued": {},
        "handling": None, "brokers": [], "events": [], "transitions": [], "multis": [],
        "deletions": [], "reassignments": [],
    }  # fmt: skip
    return "controller", "", {**known, **facts}


def phases(**means: int) -> dict[str, Any]:
    names = ("total", "queue", "local", "remote", "response_queue", "send", "throttle")
    return {
        name: {
            "mean_us": means.get(name, 0), "p50_us": means.get(name, 0),
            "p99_us": 2 * means.get(name, 0), "max_us": 3 * means.get(name, 0),
        }
        for name in names
    }  # fmt: skip


def a_bit_of_everything() -> list[dict[str, Any]]:
    parked = ParkedOperations("Produce", "Fetch", now_ms=772_985)
    parked.park("Fetch", 500, "orders-0", "orders-1")
    parked.park("Produce", 30_000, "orders-0")
    request = {
        "api": "Produce", "version": 9, "client_id": "loader", "client": "127.0.0.1",
        "correlation_id": 7, "size_bytes": 900, "time_ms": AT, "queue_us": 100, "local_us": 300,
        "remote_us": 1600, "wait_us": 0, "send_us": 20, "total_us": 2000,
    }  # fmt: skip
    session = {"id": 5, "epoch": 21, "partitions": 18, "of_follower": True, "created_ms": AT}
    return [
        HELLO,
        parked.state_message(),
        state(
            controller(
                state="TOPIC_CHANGE",
                handling={"event": "TopicChange", "state": "TOPIC_CHANGE", "since_ms": AT - 40},
                queue=2,
                queued={"BrokerChange": 2},
                brokers=[{"broker": 2, "queue": 4, "troubled": True}],
                transitions=[transition("OfflinePartition", "OnlinePartition", AT - 1000)],
                events=[
                    {
                        "event": "TopicChange", "count": 2, "total_ms": 54, "mean_ms": 27.0,
                        "longest_ms": 38, "mean_queue_ms": 0.0,
                    }
                ],
            ),
            ("broker", "", {"id": 1, "state": "RUNNING", "zookeeper_connected": True}),
            ("request", "Produce", {
                "count": 12, "versions": {"9": 12}, "errors": {"NOT_LEADER_OR_FOLLOWER": 2},
                "phases": phases(queue=100, local=300, remote=1600, total=2000),
            }),
            ("requests", "", {"slowest": [request], "last": [request]}),
            ("session", "5", session),
        ),
    ]  # fmt: skip


def shown(site: PageSite, open_page: OpenPage, view: str, **options: Any) -> Page:
    page = open_page(f"{site.url}#/{view}", errors=("404",), **options)
    expect(page.locator("main .inner")).to_be_visible()
    return page


# ---- the wheels


@pytest.mark.mission("GLASS-40")
@pytest.mark.parametrize("seed", range(5))
def test_the_pages_wheels_move_on_as_the_brokers(module_page: Page, seed: int) -> None:
    dice = random.Random(seed)
    parked = ParkedOperations("Fetch", now_ms=dice.randrange(1_000_000))
    for number in range(60):
        parked.park("Fetch", dice.choice([1, 15, 300, 500, 7_000, 45_000]) + number, "orders-0")
        parked.clock.advance(dice.randrange(30))
    before = parked.facts("Fetch")
    passed = [dice.randrange(1, 4000) for _ in range(12)]
    expected = []
    for delay in passed:
        parked.clock.advance(delay)
        expected.append((parked.clock.now_ms, by_slot(parked.facts("Fetch"))))
    found = module_page.evaluate(
        f"""async ([facts, times]) => {{ {TASKS_BY_SLOT}
            const wheels = model.wheelsOf(facts);
            const loose = wheels.loose.length;
            return [bySlot(wheels), loose, times.map((time) => {{
                model.advance(wheels, time);
                return bySlot(wheels);
            }})];
        }}""",
        [before, [time for time, _ in expected]],
    )
    first, loose, later = found
    full = [{level: slots for level, slots in one.items() if slots} for one in (first, *later)]
    assert loose == 0
    assert full == [by_slot(before), *(slots for _, slots in expected)]


@pytest.mark.mission("GLASS-40")
def test_known_numbers_of_three_wheels(module_page: Page) -> None:
    parked = ParkedOperations("Fetch", now_ms=772_985)
    parked.park("Fetch", 90, "orders-0")
    parked.park("Fetch", 500, "orders-0")
    parked.clock.advance(16)
    found = module_page.evaluate(
        """async (facts) => {
            const model = await import("/static/views/wheel_model.js");
            const wheels = model.wheelsOf(facts);
            const moves = (time) => model.advance(wheels, time).map(({from, to}) =>
                [from.level, from.slot, to && to.level, to && to.slot]);
            return {
                now: wheels.nowMs,
                slots: wheels.wheels.map(model.currentSlot),
                hands: wheels.wheels.map((wheel) => model.handAngle(wheel, wheels.nowMs)),
                starts: wheels.wheels.map((wheel) =>
                    [...wheel.buckets.values()].map(({startMs}) => startMs)),
                demoted: moves(773_060), expired: moves(773_075), second: moves(773_500),
            };
        }""",
        parked.facts("Fetch"),
    )
    # 773,075 is in slot 38,653 mod 20 of the 20 ms wheel, 773,485 in 1,933 mod 20 of the next.
    assert found["now"] == 773_001
    assert found["slots"] == [772_985 % 20, 772_985 // 20 % 20, 772_985 // 400 % 20] == [5, 9, 12]
    assert found["hands"] == pytest.approx([1 * 18, 201 * 0.9, 5001 * 0.045])
    assert found["starts"] == [[], [773_060], [773_200]]
    assert found["demoted"] == [[2, 13, 1, 15]]
    assert found["expired"] == [[1, 15, None, None]]
    assert found["second"] == [[3, 13, 2, 14], [2, 14, 1, 5], [1, 5, None, None]]


@pytest.mark.mission("GLASS-41")
def test_a_purgatory_shows_its_wheels_operations_and_watch_lists(
    site: PageSite, open_page: OpenPage
) -> None:
    parked = ParkedOperations("Produce", "Fetch", now_ms=772_985)
    parked.park("Fetch", 500, "orders-0", "orders-1")
    parked.park("Fetch", 700, "orders-0")
    site.stream.first = [HELLO, parked.state_message()]
    page = shown(site, open_page, "purgatories/Fetch")
    dial = page.get_by_label("Timing wheels of purgatory Fetch of broker 1")
    for label in (
        "Level 3: 20 slots of 400 ms, 2 tasks; it stands at slot 12",
        "Level 3, slot 13: 1 task, due in 215 ms",
        "Level 3, slot 14: 1 task, due in 615 ms",
        "2 operations parked",
    ):
        expect(dial.get_by_label(label, exact=True)).to_have_count(1)
    # The page prefers reduced motion: hands stand where the facts say.
    hand = dial.locator("[data-level='2']")
    expect(hand).to_have_attribute("transform", f"rotate({772_985 % 400 / 400 * 360:.2f})")
    expect(page.get_by_role("button", name="still")).to_have_attribute("aria-pressed", "true")
    operations = page.get_by_label("Operations parked in Fetch").locator("tbody tr")
    expect(operations).to_have_count(2)
    expect(operations.first).to_contain_text("level 3, slot 13")
    expect(page.get_by_label("orders-0: 2 operations (DelayedFetch)")).to_be_visible()
    page.get_by_role("button", name="as table").first.click()
    rows = page.get_by_role("region", name="The wheels of Fetch on broker 1").locator("tbody tr")
    expect(rows.nth(2)).to_contain_text("13: 1, 14: 1")


@pytest.mark.mission("GLASS-41")
def test_tasks_move_inwards_while_nothing_arrives(site: PageSite, open_page: OpenPage) -> None:
    parked = ParkedOperations("Fetch", now_ms=772_985)
    parked.park("Fetch", 500, "orders-0")
    site.stream.first = [HELLO, parked.state_message()]
    page = shown(site, open_page, "purgatories/Fetch", reduced_motion="no-preference")
    page.get_by_role("button", name="20 × slower").click()
    dial = page.get_by_label("Timing wheels of purgatory Fetch of broker 1")
    expect(dial.get_by_label(re.compile("^Level 2, slot"))).to_have_count(1)
    expect(dial.get_by_label(re.compile("^Level 3, slot"))).to_have_count(0)
    expect(dial.get_by_label("0 operations parked")).to_have_count(1)


# ---- the controller


@pytest.mark.mission("GLASS-42")
def test_the_drawn_machines_are_the_controllers_tables(module_page: Page) -> None:
    drawn = module_page.evaluate(
        """async () => {
            const { PARTITION_MACHINE, REPLICA_MACHINE } =
                await import("/static/views/state_machines.js");
            const read = ({ states, edges }) => ({
                states: states.map(({ name }) => name).sort(),
                edges: edges.map(({ from, to }) => [from, to]).sort(),
            });
            return { partition: read(PARTITION_MACHINE), replica: read(REPLICA_MACHINE) };
        }"""
    )
    tables = {
        kind: {
            "states": sorted(one["name"] for one in machine["states"]),
            "edges": sorted([one["before"], one["after"]] for one in machine["transitions"]),
        }
        for kind, machine in machines().items()
    }
    assert drawn == tables


@pytest.mark.mission("GLASS-42")
def test_an_edge_lights_up_and_filters_the_transitions(site: PageSite, open_page: OpenPage) -> None:
    fresh = transition("OfflinePartition", "OnlinePartition", AT - 1000)
    old = transition("OnlineReplica", "OfflineReplica", AT - 60_000, replica=1)
    site.stream.first = [HELLO, state(controller(transitions=[fresh, old, old]))]
    page = shown(site, open_page, "controller")
    label = "OfflinePartition to OnlinePartition: 1 time, the last one 1 s ago"
    edge = page.get_by_role("button", name=label)
    expect(edge).to_have_class(re.compile(r"\brecent\b"))
    seen = page.get_by_role("button", name=re.compile("^OnlineReplica to OfflineReplica: 2 times"))
    expect(seen).to_have_class(re.compile(r"\bseen\b"))
    never = page.get_by_role("button", name=re.compile("^NewPartition to OnlinePartition"))
    expect(never).to_have_class(re.compile(r"\bnever\b"))
    rows = page.get_by_label(re.compile("^Last transitions of")).locator("tbody tr")
    expect(rows).to_have_count(3)
    seen.focus()
    page.keyboard.press("Enter")
    expect(rows).to_have_count(2)
    expect(seen).to_have_attribute("aria-pressed", "true")


@pytest.mark.mission("GLASS-42")
def test_transitions_of_partitions_are_known_from_the_log_too(
    site: PageSite, open_page: OpenPage
) -> None:
    moved = [transition("OnlineReplica", "OfflineReplica", AT, replica=1)] * 100
    logged = {
        "partition": "orders-0", "epoch": 3, "before": "OnlinePartition",
        "after": "OfflinePartition", "leader": -1, "isr": [2, 3], "leader_epoch": 5,
    }  # fmt: skip
    event = {
        "type": "event", "at": AT - 10, "broker": 1, "number": 1, "level": "info",
        "name": "partition_state_changed", "facts": logged,
    }  # fmt: skip
    others = {**event, "broker": 2, "number": 2}
    site.stream.first = [HELLO, event, others, state(controller(transitions=moved))]
    page = shown(site, open_page, "controller")
    edge = page.get_by_role(
        "button", name=re.compile("^OnlinePartition to OfflinePartition: 1 time")
    )
    edge.click()
    rows = page.get_by_label(re.compile("^Last transitions of")).locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("2, 3")


@pytest.mark.mission("GLASS-42")
def test_the_controller_shows_its_event_queue_and_channels(
    site: PageSite, open_page: OpenPage
) -> None:
    site.stream.first = a_bit_of_everything()
    page = shown(site, open_page, "controller")
    now = page.get_by_label("The controller now")
    expect(now).to_contain_text("TopicChange")
    expect(now.get_by_label("2 events in the queue: BrokerChange, BrokerChange")).to_be_visible()
    expect(page.get_by_label("Channels of the controller")).to_contain_text("cannot send")
    expect(page.get_by_label(re.compile("^TopicChange: 2 handled in 54 ms"))).to_be_visible()


# ---- requests, sessions, throttles


@pytest.mark.mission("GLASS-43")
def test_requests_have_their_phases(site: PageSite, open_page: OpenPage) -> None:
    site.stream.first = a_bit_of_everything()
    page = shown(site, open_page, "requests")
    bar = page.get_by_label("Produce, mean: queue 100 µs, local 300 µs, remote 1.6 ms", exact=True)
    expect(bar).to_be_visible()
    widths = bar.locator(".phase").evaluate_all("all => all.map((one) => one.style.width)")
    assert widths == ["5%", "15%", "80%"]
    expect(page.get_by_text("2 errors")).to_be_visible()
    slowest = page.get_by_role("region", name="Slowest now")
    expect(slowest).to_contain_text("loader")
    expect(slowest).to_contain_text("2 ms")


@pytest.mark.mission("GLASS-44")
def test_sessions_say_how_much_they_save(site: PageSite, open_page: OpenPage) -> None:
    site.stream.first = a_bit_of_everything()
    page = shown(site, open_page, "sessions")
    expect(page.get_by_label("18 partitions")).to_be_visible()
    expect(page.locator(".session")).to_contain_text("360 rows")  # 20 fetches named none of 18
    expect(page.locator(".session")).to_contain_text("follower")


@pytest.mark.mission("GLASS-44")
def test_a_broker_without_quotas_says_how_to_set_one(site: PageSite, open_page: OpenPage) -> None:
    site.stream.first = a_bit_of_everything()
    page = shown(site, open_page, "throttles")
    expect(page.locator("main")).to_contain_text("minikafka quotas set")
    expect(page.get_by_role("button", name="Set a quota…")).to_be_visible()


@pytest.mark.mission("GLASS-44")
def test_quotas_show_their_use_and_muted_clients(site: PageSite, open_page: OpenPage) -> None:
    account = {
        "key": "producer_byte_rate", "user": "alice", "client_id": "loader", "limit": 1000,
        "used": 1500, "throttle_ms": 430,
    }  # fmt: skip
    unused = {"key": "request_percentage", "user": "<default>", "client_id": None, "limit": 50}
    muted = {"client": "::1", "client_id": "loader", "user": "alice", "until_ms": AT + 2000}
    clients = {
        "enabled": True, "limits": [unused], "accounts": [account], "num_muted": 1,
        "muted": [muted],
    }  # fmt: skip
    replication = {
        "leader": {"limit": 4096, "rate": 1024, "exceeded": False},
        "follower": {"limit": None, "rate": 0, "exceeded": False},
    }
    connected = [{"client_id": "loader", "name": "librdkafka", "version": "2.3", "connections": 3}]
    connections = {"total": 3, "listeners": {"PLAINTEXT": 3}, "clients": connected}
    value = {"name": "org_apache_kafka_producer_node_x", "labels": {"node_id": "1"}, "value": 0.25}
    pushed = {
        "client_id": "loader", "client_software_name": "librdkafka",
        "client_software_version": "2.3", "pushed_ms": AT - 3000, "num_values": 1,
        "values": [value],
    }  # fmt: skip
    site.stream.first = [
        HELLO,
        state(
            ("throttle", "clients", clients),
            ("throttle", "replication", replication),
            ("connections", "", connections),
            ("client_metrics", "c1", pushed),
        ),
    ]
    page = shown(site, open_page, "throttles")
    rows = page.locator(".throttles li")
    expect(rows).to_have_count(3)  # a side without a limit is left out
    expect(rows.nth(0)).to_contain_text("user alice, client loader")
    expect(rows.nth(0)).to_contain_text("for 430 ms")
    expect(rows.nth(1)).to_contain_text("1 KiB/s of 4 KiB/s")
    expect(rows.nth(2)).to_contain_text("every other user")
    expect(page.get_by_role("region", name="Connections that a broker")).to_contain_text("2 s")
    expect(page.get_by_role("region", name="Connections by client")).to_contain_text("librdkafka")
    metrics = page.get_by_role("region", name="Metrics that clients have pushed").locator("tbody")
    for text in ("loader", "librdkafka 2.3", "producer node x", "node_id 1", "0.25", "3 s ago"):
        expect(metrics).to_contain_text(text)


@pytest.mark.mission("GLASS-44")
def test_names_and_amounts_of_throttles_stay_apart_at_320_pixels(
    site: PageSite, open_page: OpenPage
) -> None:
    side = {"limit": 1_000_000, "rate": 0, "exceeded": False}
    throttle = ("throttle", "replication", {"leader": side, "follower": side})
    site.stream.first = [HELLO, state(throttle)]
    page = shown(site, open_page, "throttles", viewport={"width": 320, "height": 640})
    name = page.locator(".throttles .broker-name").first.bounding_box()
    amount = page.locator(".throttles .bars-text").first.bounding_box()
    assert name is not None
    assert amount is not None
    assert name["x"] + name["width"] <= 320
    assert name["y"] + name["height"] <= amount["y"]


# ---- all of them


@pytest.mark.mission("GLASS-41")
@pytest.mark.parametrize("view", PATHS)
def test_a_view_says_that_only_a_minikafka_shows_this(
    site: PageSite, open_page: OpenPage, view: str
) -> None:
    site.stream.first = [{**HELLO, "minikafka": False}]
    page = open_page(f"{site.url}#/{view}", errors=("404",))
    text = "Nothing is odd" if view == "why" else "Only a minikafka broker shows"
    expect(page.locator("main")).to_contain_text(text)


@pytest.mark.mission("GLASS-41")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", PATHS)
def test_axe_finds_nothing_serious(
    site: PageSite, open_page: OpenPage, view: str, scheme: str
) -> None:
    site.stream.first = a_bit_of_everything()
    page = shown(site, open_page, view, color_scheme=scheme)
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "best-practice"]})
    worst = [
        f"{one['id']}: {json.dumps([node['html'][:200] for node in one['nodes'][:3]])}"
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert worst == []


@pytest.mark.mission("GLASS-41")
@pytest.mark.parametrize("view", PATHS)
def test_a_view_fits_320_pixels(site: PageSite, open_page: OpenPage, view: str) -> None:
    site.stream.first = a_bit_of_everything()
    page = shown(site, open_page, view, viewport={"width": 320, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
