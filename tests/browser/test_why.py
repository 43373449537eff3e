"""What the page finds odd, and the chains of events that led there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import minikafka
from tests.browser.fake_page_process import FakePageProcess
from tests.browser.test_inner_views import AT, HELLO, controller, state
from tests.support.browser import OpenPage, play_to
from tests.support.page_site import PageSite

Message = dict[str, Any]
PACKAGE = Path(minikafka.__file__).parent
BOUND = {"broker", "controller", "partition", "source"}  # facts that a log has for all its events


def findings(page: Page, *messages: Message) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate(
        """async (messages) => {
            const { emptyState, reduceAll } = await import("/static/reducer.js");
            const { findings } = await import("/static/views/why_findings.js");
            return findings(reduceAll(emptyState(), messages));
        }""",
        [HELLO, *messages],
    )
    return found


def event(
    name: str, at: int, broker: int = 2, number: int = 0, level: str = "info", **facts: Any
) -> Message:
    return {
        "type": "event", "at": AT + at, "broker": broker, "number": number or at, "level": level,
        "name": name, "facts": facts,
    }  # fmt: skip


def node(broker: int, *, online: bool = True) -> tuple[str, str, dict[str, Any]]:
    facts = {
        "id": broker, "host": "localhost", "port": 9091 + broker, "rack": None, "online": online,
        "controller": broker == 2, "version": "minikafka 1", "debug": "localhost:1",
    }  # fmt: skip
    return "node", str(broker), facts


def topic(
    name: str = "orders", leader: int | None = 2, isr: tuple[int, ...] = (1, 2, 3), **facts: Any
) -> tuple[str, str, dict[str, Any]]:
    partition = {
        "partition": 0, "leader": leader, "leader_epoch": 4, "replicas": [1, 2, 3],
        "isr": list(isr), "offline": [], "log_start_offset": 0, "high_watermark": 9,
        "last_stable_offset": 9,
    }  # fmt: skip
    known = {"name": name, "internal": False, "partitions": [partition], "configs": None}
    return "topic", name, {**known, **facts}


def cluster(controller: int | None = 2) -> tuple[str, str, dict[str, Any]]:
    return "cluster", "", {"cluster_id": "inner", "controller": controller}


def kinds(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["kind"], one["severity"]) for one in found]


def chain(finding: dict[str, Any]) -> list[str]:
    return [link["name"] for link in finding["chain"]]


HEALTHY = state(node(1), node(2), node(3), topic(), cluster(), broker=None)


@pytest.mark.mission("GLASS-45")
def test_nothing_is_odd_in_a_healthy_cluster(module_page: Page) -> None:
    quiet = (
        state(controller(controller=2), broker=2),
        state(controller(active=False, controller=2), ("reachable", "", {"debug": True})),
    )
    assert findings(module_page, HEALTHY, *quiet) == []


@pytest.mark.mission("GLASS-45")
def test_a_dead_broker_and_its_consequences(module_page: Page) -> None:
    failed = [
        event("isr_expanding", 10, broker=2, partition="orders-0", old="(2,)", new="(2, 1, 3)"),
        event("leader_lost", 100, broker=3, level="warning", source=1, error="closed"),
        event("rebalance_prepared", 150, group="billing", reason="new member"),
        event("brokers_changed", 200, new=[], dead=[1], bounced=[], live=[2, 3]),
        event("brokers_failed", 210, brokers=[1]),
        event("offline_partition_leader_elected", 220, partition="orders-0", leader=2,
              leader_epoch=4, isr=[2, 3]),
    ]  # fmt: skip
    dead = state(node(1, online=False), topic(isr=(2, 3)), broker=None)
    gone, under = findings(module_page, HEALTHY, *failed, dead)
    assert kinds([gone, under]) == [("gone", "critical"), ("under-replicated", "warning")]
    assert gone["title"] == "Broker 1 is gone."
    assert "1 partition." in gone["detail"]
    assert chain(gone) == ["leader_lost", "brokers_changed", "brokers_failed"]
    assert chain(under) == [*chain(gone), "offline_partition_leader_elected"]
    assert "broker 1 is not in the ISR" in under["title"]
    assert under["view"]["path"] == "lanes"
    assert under["partitions"] == ["orders-0"]


@pytest.mark.mission("GLASS-45")
def test_the_evidence_of_a_death_is_in_the_chains(module_page: Page) -> None:
    """Of the broker, of its partitions, and of a cluster whose controller it was."""
    refused = ["localhost:9092", "localhost:29092"]
    evidence: dict[str, Any] = {"epoch": 25, "session": "0x1a", "refused": refused}
    failed = [
        event("leader_lost", 100, broker=3, level="warning", source=1, error="closed"),
        event("broker_found_gone", 130, broker=3, level="warning", gone_broker=1, **evidence),
        event("brokers_failed", 140, brokers=[1]),
        event("offline_partition_leader_elected", 150, partition="orders-0", leader=2,
              leader_epoch=4, isr=[2, 3]),
    ]  # fmt: skip
    dead = state(node(1, online=False), topic(isr=(2, 3)), cluster(controller=None), broker=None)
    found = {one["kind"]: one for one in findings(module_page, HEALTHY, *failed, dead)}
    causes = ["leader_lost", "broker_found_gone", "brokers_failed"]
    assert chain(found["gone"]) == causes
    assert chain(found["under-replicated"]) == [*causes, "offline_partition_leader_elected"]
    (link,) = found["no-controller"]["chain"]
    assert link["says"] == (
        "Broker 3 found broker 1 gone: localhost:9092, localhost:29092 refused connections twice. "
        "It deleted the registration with epoch 25, of the session 0x1a."
    )


@pytest.mark.mission("GLASS-45")
def test_a_restart_is_no_beginning_of_trouble_and_a_wrong_verdict_is(module_page: Page) -> None:
    old: dict[str, Any] = {"epoch": 25, "session": "0x1a", "refused": ["localhost:9092"]}
    taken_over = event("old_registration_removed", 100, broker=1, **old)
    lost = event("registration_lost", 200, broker=1, level="warning", epoch=31)
    silent = state(("reachable", "", {"debug": False, "reason": "refused"}), broker=1)
    (found,) = findings(module_page, HEALTHY, taken_over, lost, silent)
    assert chain(found) == ["registration_lost"]


@pytest.mark.mission("GLASS-45")
def test_the_loss_of_a_broker_has_no_events_of_older_stories(module_page: Page) -> None:
    old = [
        event("loop_stalled", 0, broker=1, level="warning", stalled_ms=270),
        event("leader_lost", 9_000, broker=1, level="warning", source=3, error="closed"),
    ]
    lost = [
        event("leader_lost", 80_000, broker=3, level="warning", source=1, error="closed"),
        event("brokers_failed", 86_000, brokers=[1]),
    ]
    dead = state(node(1, online=False), topic(isr=(2, 3)), at=AT + 90_000, broker=None)
    gone = findings(module_page, HEALTHY, *old, *lost, dead)[0]
    assert chain(gone) == ["leader_lost", "brokers_failed"]


@pytest.mark.mission("GLASS-45")
def test_a_refused_connection_tells_an_ended_process(module_page: Page) -> None:
    reason = "The debug listener http://127.0.0.1:1 of broker 2 is lost: Connection refused."
    silent = state(("reachable", "", {"debug": False, "reason": reason}), broker=2)
    (found,) = findings(module_page, HEALTHY, silent)
    assert "process has ended" in found["detail"]


@pytest.mark.mission("GLASS-134")
def test_a_broker_without_a_debug_listener_has_lost_none(module_page: Page) -> None:
    """So are the brokers of a secured cluster: the protocol tells that they have none."""
    kind, name, facts = node(1)
    by_design = state((kind, name, {**facts, "debug": None}), broker=None)
    silent = state(("reachable", "", {"debug": False, "reason": "none"}), broker=1)
    assert findings(module_page, HEALTHY, by_design, silent) == []


@pytest.mark.mission("GLASS-45")
def test_repeats_become_one_link(module_page: Page) -> None:
    shrunk = [
        event("isr_shrinking", at, partition=f"orders-{at}", old="(2, 3, 1)", new="(2, 3)")
        for at in range(1, 9)
    ]
    partitions = [
        ("partition", f"orders-{n}", {
            "is_leader": True, "leader": 2, "leader_epoch": 1, "replicas": [1, 2, 3], "isr": [2, 3],
        })
        for n in range(1, 9)
    ]  # fmt: skip
    (found,) = findings(module_page, *shrunk, state(*partitions, broker=2))
    assert found["title"].startswith("8 partitions are under-replicated")
    ((link),) = found["chain"]
    assert (link["count"], len(link["partitions"]), link["at"]) == (8, 8, AT + 8)


@pytest.mark.mission("GLASS-45")
def test_the_report_of_a_leader_is_fresher(module_page: Page) -> None:
    leaders = {
        "is_leader": True, "leader": 2, "leader_epoch": 4, "replicas": [1, 2, 3], "isr": [1, 2, 3],
    }  # fmt: skip
    stale = state(topic(isr=(2, 3)), broker=None)
    assert findings(module_page, stale, state(("partition", "orders-0", leaders), broker=2)) == []
    older = {**leaders, "leader_epoch": 3}
    (found,) = findings(module_page, stale, state(("partition", "orders-0", older), broker=1))
    assert found["kind"] == "under-replicated"


@pytest.mark.mission("GLASS-45")
@pytest.mark.parametrize(
    ("odd", "expected"),
    [
        (topic(leader=None, isr=(1,)), ("leaderless", "critical")),
        (topic(leader=-1, isr=(1,)), ("leaderless", "critical")),
        (
            topic(isr=(2,), configs=[{"name": "min.insync.replicas", "value": "2"}]),
            ("under-min-isr", "critical"),
        ),
        (cluster(controller=None), ("no-controller", "critical")),
        (
            ("reassignment", "orders-0", {"replicas": [1, 2, 3], "adding": [3], "removing": []}),
            ("reassignment", "note"),
        ),
    ],
)
def test_odd_states_of_the_protocol(
    module_page: Page, odd: tuple[str, str, dict[str, Any]], expected: tuple[str, str]
) -> None:
    assert kinds(findings(module_page, HEALTHY, state(odd, broker=None)))[:1] == [expected]


@pytest.mark.mission("GLASS-45")
def test_an_offline_replica_of_a_live_broker(module_page: Page) -> None:
    name, kind, facts = topic()
    facts["partitions"][0]["offline"] = [3]
    failed = event("disk_failed", 1, broker=3, level="error", partition="orders-0", error="EIO")
    (found,) = findings(module_page, HEALTHY, failed, state((name, kind, facts), broker=None))
    assert found["title"] == "Broker 3 is alive, but 1 replica of it is offline."
    assert chain(found) == ["disk_failed"]
    dead = state((name, kind, facts), node(3, online=False), broker=None)
    gone = findings(module_page, HEALTHY, dead)
    assert kinds(gone) == [("gone", "critical")]


@pytest.mark.mission("GLASS-45")
def test_two_controllers(module_page: Page) -> None:
    (found,) = findings(
        module_page,
        HEALTHY,
        event("session_expired", 5, broker=1, level="warning"),
        event("controller_elected", 9, broker=2, epoch=4),
        state(controller(controller=1, epoch=3), broker=1),
        state(controller(controller=2, epoch=4), broker=2),
    )
    assert (found["kind"], found["severity"]) == ("two-controllers", "critical")
    assert "broker 1 (epoch 3) and broker 2 (epoch 4)" in found["detail"]
    assert chain(found) == ["session_expired", "controller_elected"]


@pytest.mark.mission("GLASS-45")
@pytest.mark.parametrize(
    ("odd", "expected", "says"),
    [
        (("reachable", "", {"debug": False, "reason": "timed out"}), "silent", "timed out."),
        (("broker", "", {"state": "RUNNING", "zookeeper_connected": False}), "zookeeper", ""),
        (("broker", "", {"state": "RECOVERY", "zookeeper_connected": True}), "state", ""),
        (
            controller(controller=1, brokers=[{"broker": 3, "queue": 7, "troubled": True}]),
            "channel",
            "7 requests",
        ),
        (
            ("throttle", "clients", {"num_muted": 2, "muted": [{"client_id": "loader"}]}),
            "throttle",
            "loader",
        ),
        (
            ("throttle", "replication", {"log_dirs": {"limit": 9, "rate": 12, "exceeded": True}}),
            "throttle",
            "log dirs",
        ),
    ],
)
def test_odd_states_of_a_broker(
    module_page: Page, odd: tuple[str, str, dict[str, Any]], expected: str, says: str
) -> None:
    (found,) = findings(module_page, HEALTHY, state(odd, broker=1))
    assert found["kind"].startswith(expected)
    assert says in found["detail"]


@pytest.mark.mission("GLASS-45")
def test_a_transaction_that_hangs(module_page: Page) -> None:
    facts = {
        "state": "Ongoing", "timeout_ms": 60_000, "start_ms": AT - 70_000, "unmarked": 0,
        "partitions": ["orders-0"], "num_partitions": 1,
    }  # fmt: skip
    (found,) = findings(module_page, state(("transaction", "pay", facts), broker=3))
    assert found["kind"] == "stuck-transaction"
    assert "open for 70 s, longer than its time-out of 60 s" in found["title"]
    assert findings(module_page, state(("transaction", "pay", {**facts, "start_ms": AT}))) == []


@pytest.mark.mission("GLASS-45")
def test_a_decided_transaction_without_its_markers(module_page: Page) -> None:
    facts = {
        "state": "PrepareCommit", "timeout_ms": 60_000, "start_ms": AT, "unmarked": 1,
        "partitions": ["orders-0"], "num_partitions": 2,
    }  # fmt: skip
    decided = state(("transaction", "pay", facts), broker=3)
    dead = event("partition_state_changed", 500, partition="orders-0", after="OfflinePartition",
                 before="OnlinePartition")  # fmt: skip
    (found,) = findings(module_page, decided, dead, state(broker=3, at=AT + 30_000))
    assert "waited for its markers for 30 s" in found["title"]
    assert "1 partition" in found["detail"]
    assert chain(found) == ["partition_state_changed"]
    assert findings(module_page, decided, dead, state(broker=3, at=AT + 5_000)) == []


def consumers(lag: int, end: int = 0, **facts: Any) -> tuple[str, str, dict[str, Any]]:
    offsets = [
        {"topic": "orders", "partition": 0, "committed": 1005, "log_end_offset": 1005 + lag,
         "lag": lag}
    ]  # fmt: skip
    known = {"group": "billing", "state": "Stable", "members": [{}], "offsets": offsets}
    return "consumer_group", "billing", {**known, "lag": lag, "end": end, **facts}


@pytest.mark.mission("GLASS-140")
@pytest.mark.parametrize(
    ("lags", "lagging"),
    [
        ([100 * at for at in range(30)], True),
        ([60 * at for at in range(30)], True),  # it reads less than is written
        ([2000 - 10 * at for at in range(30)], False),  # it catches up
        ([(at % 4) * 50 + 10 for at in range(30)], False),  # it reads in batches
        ([20 + at * 20 // 29 for at in range(30)], False),  # 20 to 40: the commit is soon
        ([22, 20, 31, 25] * 2 + [23, 40, 26, 30] * 3 + [27, 38, 33, 40] * 2, False),
        ([500] * 30, False),
        ([100 * at for at in range(15)], False),  # too short to tell
    ],
)
def test_a_group_lags_if_its_lag_grows(module_page: Page, lags: list[int], lagging: bool) -> None:
    """Producers write 40 records a second; a look every 2.5 s."""
    messages = [
        state(consumers(lag, 100 * at), broker=None, at=AT + 2500 * at)
        for at, lag in enumerate(lags)
    ]
    found = findings(module_page, *messages)
    assert kinds(found) == ([("lagging-group", "warning")] if lagging else [])
    if lagging and lags[1] == 100:
        assert "by 40 records a second, 2,900 in all" in found[0]["title"]
        assert "Producers write 40 records a second." in found[0]["detail"]
        assert "orders-0: 2,900 records, from offset 1,005 to 3,905" in found[0]["detail"]


def beyond(*sick: dict[str, Any], **more: int) -> tuple[str, str, dict[str, Any]]:
    held = {"leads": 40, "replicas": 179, "behind": 179}
    facts = {"partitions": 179, "brokers": {"2": held}, "sick": list(sick)}
    return "beyond", "", {**facts, "more_leaderless": 0, "more_under_replicated": 0, **more}


@pytest.mark.mission("GLASS-141")
def test_findings_and_numbers_are_of_all_topics(module_page: Page) -> None:
    """34 described partitions have no leader, and 145 that are not described."""
    described = [topic(f"t{number}", None, isr=(2,)) for number in range(34)]
    reported = ("partition", "t900-0", {"is_leader": True, "leader": 2, "leader_epoch": 9,
                                        "replicas": [1, 2, 3], "isr": [2]})  # fmt: skip
    leaderless = {"what": "leaderless", "brokers": [1, 2, 3], "count": 140, "alone": 140,
                  "partitions": ["t900-0"]}  # fmt: skip
    under = {"what": "under_replicated", "brokers": [3], "count": 1200, "alone": 7,
             "partitions": ["t901-0"]}  # fmt: skip
    messages = [
        state(node(1), node(2), node(3), *described, cluster(),
              beyond(leaderless, under, more_leaderless=5), broker=None),
        state(reported, broker=2),
    ]  # fmt: skip
    found = findings(module_page, *messages)
    assert [one["title"] for one in found] == [
        "174 partitions have no leader.",
        "5 partitions have no leader.",
        "1,200 partitions are under-replicated: broker 3 is not in the ISR.",
    ]
    assert found[0]["partitions"] == [*(f"t{number}-0" for number in range(34)), "t900-0"]
    assert found[0]["count"] == 174
    odd = module_page.evaluate(
        """async (messages) => {
            const { emptyState, reduceAll } = await import("/static/reducer.js");
            const { oddStates } = await import("/static/parts/partitions.js");
            return oddStates(reduceAll(emptyState(), messages));
        }""",
        [HELLO, *messages],
    )
    assert [(row["name"], row["count"]) for row in odd] == [
        ("without a leader", 179),
        ("under-replicated", 1200),
    ]


@pytest.mark.mission("GLASS-45")
@pytest.mark.parametrize(("step", "counted"), [(10, [("finding", 1, False)]), (0, [])])
def test_the_cluster_counts_findings_where_no_partition_or_broker_is_odd(
    module_page: Page, step: int, counted: list[tuple[str, int, bool]]
) -> None:
    messages = [
        state(consumers(10 + step * at, step * at), broker=None, at=AT + 3000 * at)
        for at in range(30)
    ]
    odd = module_page.evaluate(
        """async (messages) => {
            const { emptyState, reduceAll } = await import("/static/reducer.js");
            const { verdict } = await import("/static/views/cluster.js");
            return verdict(reduceAll(emptyState(), messages)).odd;
        }""",
        [HELLO, *messages],
    )
    assert [(one["name"], one["count"], one["bad"]) for one in odd] == counted


@pytest.mark.mission("GLASS-45")
def test_a_group_without_members_has_records_to_read(module_page: Page) -> None:
    left = event("member_left", 3, group="billing", member="m-1", reason="closed")
    empty = state(consumers(7, state="Empty", members=[]), broker=None)
    (found,) = findings(module_page, left, empty)
    assert (found["kind"], found["severity"]) == ("idle-group", "note")
    assert chain(found) == ["member_left"]


@pytest.mark.mission("GLASS-45")
def test_a_group_stuck_in_a_rebalance(module_page: Page) -> None:
    members = [
        {"member": "m-1", "client": "fast", "awaits_join": True, "awaits_sync": False},
        {"member": "m-2", "client": "slow", "awaits_join": False, "awaits_sync": False},
    ]
    facts = {"group": "billing", "state": "PreparingRebalance", "members": members}
    prepared = event("rebalance_prepared", 1, group="billing", reason="adding new member m-1")
    group = ("group", "billing", {**facts, "since_ms": AT - 40_000})
    (found,) = findings(module_page, prepared, state(group, broker=3))
    assert "has rebalanced for 40 s" in found["title"]
    assert "1 of 2 members join: slow." in found["detail"]
    assert found["chain"][0]["says"] == "Group billing rebalances: adding new member m-1."
    young = ("group", "billing", {**facts, "since_ms": AT - 2_000})
    assert findings(module_page, prepared, state(young, broker=3)) == []


@pytest.mark.mission("GLASS-45")
def test_disks_stalls_and_unclean_leaders_are_known_by_events(module_page: Page) -> None:
    odd = [
        event("disk_failed", 1, broker=1, level="error", partition="orders-0", error="EIO"),
        event("log_directory_failed", 2, broker=1, level="error", directory="/d", logs=3, error=""),
        event("unclean_leader_elected", 3, level="warning", partition="orders-0", leader=3),
        event("loop_stalled", 4, broker=3, level="warning", stalled_ms=1300, api="Metadata"),
    ]  # fmt: skip
    found = findings(module_page, *odd, state(at=AT + 5))
    assert kinds(found) == [("unclean", "critical"), ("disk", "critical"), ("stall", "warning")]
    assert chain(found[1]) == ["disk_failed", "log_directory_failed"]
    started = event("broker_started", 9, broker=1)
    later = state(at=AT + 3_600_000)
    assert findings(module_page, *odd, started, later) == []


@pytest.mark.mission("GLASS-45")
def test_the_view_tells_a_brokers_death(site: PageSite, open_page: OpenPage) -> None:
    page = open_page(site.playing("failover", "why"))
    play_to(page, 0.5)
    gone = page.locator(".finding.critical").filter(has_text=" is gone.")
    expect(gone).to_contain_text("The controller handles the loss of broker")
    last = page.locator(".finding.warning .chain li").last
    expect(last).to_have_class("info newest")
    page.locator(".finding .chain-name", has_text="brokers_failed").first.click()
    expect(page.get_by_label("text")).to_have_value("brokers_failed")
    expect(page.locator(".event-name b").first).to_have_text("brokers_failed")
    page.go_back()
    lost = page.locator(".finding").filter(has_text="under-replicated").locator(".tag[href]").first
    expect(lost).to_have_attribute("href", f"#/lanes/{lost.inner_text()}")
    gone.get_by_role("link", name="Cluster →").click()
    expect(page.locator("main h1")).to_have_text("Cluster")


@pytest.mark.mission("GLASS-141")
def test_the_number_of_further_partitions_is_that_of_all_topics(open_page: OpenPage) -> None:
    described = [topic(f"t{number}", None, isr=(2,)) for number in range(14)]
    leaderless = {"what": "leaderless", "brokers": [1, 2, 3], "count": 40, "alone": 40,
                  "partitions": ["t900-0"]}  # fmt: skip
    messages = [HELLO, state(node(1), *described, cluster(), beyond(leaderless), broker=None)]
    with FakePageProcess(messages, {}).running() as process:
        page = open_page(f"{process.address}#/why", errors=("status of 400",))
        finding = page.locator(".finding").filter(has_text="54 partitions have no leader.")
        finding.get_by_role("button", name="42 more").click()  # beside the twelve that are shown
        expect(finding.get_by_role("link", name="and 39 more: sick topics")).to_be_visible()
        page.close()


# ---- the stories of events


def logged() -> Iterator[tuple[str, set[str] | None]]:
    """Yield each name of an event in the package's sources with the names of its facts; None where
    they are not written out."""
    for path in PACKAGE.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or not call.args:
                continue
            first = call.args[0]
            choices = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
            keys = {keyword.arg for keyword in call.keywords}
            known = None if None in keys else {str(key) for key in keys}
            for name in choices:
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield name.value, known


@pytest.mark.mission("GLASS-46")
def test_stories_are_about_events_that_the_package_logs(module_page: Page) -> None:
    used: dict[str, list[str]] = module_page.evaluate(
        """async () => {
            const { STORIES } = await import("/static/views/event_stories.js");
            return Object.fromEntries(Object.entries(STORIES).map(([name, story]) => {
                const read = new Set();
                const facts = new Proxy({}, { get: (_, key) => (read.add(key), ["1"]) });
                story.about(facts, 1);
                if (!story.says(facts, 1).endsWith(".")) throw new Error(`${name}: no sentence`);
                return [name, [...read]];
            }));
        }"""
    )
    facts: dict[str, list[set[str] | None]] = {}
    for name, keys in logged():
        facts.setdefault(name, []).append(keys)
    assert [name for name in used if name not in facts] == []
    wrong = {
        name: keys
        for name, keys in used.items()
        if not any(
            known is None or set(keys) <= set().union(*(k or set() for k in facts[name])) | BOUND
            for known in facts[name]
        )
    }
    assert wrong == {}


@pytest.mark.mission("GLASS-46")
def test_an_unknown_event_has_its_name_as_sentence(module_page: Page) -> None:
    says = module_page.evaluate(
        """async (event) => (await import("/static/views/event_stories.js")).sentence(event)""",
        event("constructor_called", 1),
    )
    assert says == "Constructor called."
