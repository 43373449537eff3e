"""Live messages: one stream for all tabs, none for hidden ones; what a lost connection shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.support.browser import TIMEOUT_MS, OpenPage, play_to, watch_errors
from tests.support.page_server import page_server
from tests.support.page_site import RECORDINGS, PageSite

HELLO = {
    "type": "hello", "version": 1, "at": 1_000, "cluster_id": "hand-made", "bootstrap": "h:1",
    "minikafka": True, "live": True, "read_only": False, "supervised": [], "brokers_supervised": [],
}  # fmt: skip
LOST = ("ERR_", "Failed to load resource")  # Chromium logs what a test takes away on purpose
HIDE = """() => {
    Object.defineProperty(document, "hidden", {value: true, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}"""
SHOW = HIDE.replace("true, conf", "false, conf")


def state(at: int, kind: str, entity: str, **facts: Any) -> dict[str, Any]:
    """Return a change of the whole cluster's facts."""
    changed = [{"kind": kind, "name": entity, "facts": facts}]
    return {"type": "state", "at": at, "broker": None, "reset": False, "changed": changed,
            "removed": []}  # fmt: skip


def node(broker: int, at: int = 1_001) -> dict[str, Any]:
    return state(at, "node", str(broker), id=broker, host="h", port=broker, rack=None,
                 online=True, controller=False, version=None, debug=None)  # fmt: skip


@pytest.fixture
def live(site: PageSite) -> PageSite:
    site.responses["acts"] = []
    site.stream.first = [HELLO, node(1)]
    return site


@pytest.fixture
def context(chromium: Browser) -> Any:
    context = chromium.new_context(reduced_motion="reduce")
    context.set_default_timeout(TIMEOUT_MS)
    yield context
    context.close()


def open_tab(context: BrowserContext, url: str) -> Page:
    page = context.new_page()
    problems: list[str] = []
    watch_errors(page, problems, LOST)
    page.goto(url)
    return page


def wait_until(page: Page, reached: Callable[[], bool]) -> None:
    """Wait for something outside of the browser, for up to a minute."""
    for _ in range(1200):
        if reached():
            return
        page.wait_for_timeout(50)
    raise AssertionError("it did not happen")


def brokers(page: Page) -> Any:
    return page.get_by_role("list", name="Brokers").get_by_role("listitem")


@pytest.mark.mission("GLASS-32")
def test_eight_tabs_share_one_stream(live: PageSite, context: BrowserContext) -> None:
    """The later tabs get what is known, and all of them what comes then. A browser opens no more
    than six connections to a host."""
    first = open_tab(context, live.url)
    expect(brokers(first)).to_have_count(1)
    live.stream.send(node(2))
    expect(brokers(first)).to_have_count(2)
    others = [open_tab(context, live.url) for _ in range(7)]
    for tab in others:
        expect(brokers(tab)).to_have_count(2)
    live.stream.send(node(3))
    for tab in [first, *others]:
        expect(brokers(tab)).to_have_count(3)
    assert live.stream.opened == 1


@pytest.mark.mission("GLASS-32")
def test_a_hidden_page_ends_the_stream_and_goes_on_later(
    live: PageSite, context: BrowserContext
) -> None:
    page = open_tab(context, live.url)
    expect(page.get_by_role("status")).to_contain_text("live")
    live.stream.send(node(2))
    expect(brokers(page)).to_have_count(2)
    page.evaluate(HIDE)
    wait_until(page, lambda: live.stream.readers == 0)
    page.evaluate(SHOW)
    wait_until(page, lambda: live.stream.readers == 1)
    assert live.stream.last_ids[0] == ""
    assert live.stream.last_ids[-1] == "boot-3"
    expect(page.get_by_role("status")).to_contain_text("live")


@pytest.mark.mission("GLASS-32")
def test_a_lost_connection_is_shown_and_made_again(live: PageSite, context: BrowserContext) -> None:
    page = open_tab(context, live.url)
    expect(page.get_by_role("status")).to_contain_text("live")
    live.stream.first = [HELLO, node(1), node(7)]
    with live.stream.silent():
        live.stream.cut()
        expect(page.get_by_role("status")).to_contain_text("connection lost, trying again")
    expect(page.get_by_role("status")).to_contain_text("live")
    expect(page.get_by_role("listitem", name="Broker 7")).to_be_visible()


@pytest.mark.mission("GLASS-32")
def test_a_browser_without_shared_workers_has_a_stream_a_tab(
    live: PageSite, context: BrowserContext
) -> None:
    context.add_init_script("delete window.SharedWorker")
    tabs = [open_tab(context, live.url) for _ in range(2)]
    for tab in tabs:
        expect(brokers(tab)).to_have_count(1)
    assert live.stream.opened == 2


@pytest.mark.mission("GLASS-32")
def test_a_paused_page_keeps_its_state_until_it_goes_on(
    live: PageSite, context: BrowserContext
) -> None:
    page = open_tab(context, live.url)
    expect(brokers(page)).to_have_count(1)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status")).to_contain_text("paused")
    live.stream.send(node(2))
    other = open_tab(context, live.url)
    expect(brokers(other)).to_have_count(2)
    expect(brokers(page)).to_have_count(1)
    page.get_by_role("button", name="Go on").click()
    expect(brokers(page)).to_have_count(2)


@pytest.mark.mission("GLASS-34")
def test_lanes_come_from_the_protocol_where_brokers_show_no_inside(
    live: PageSite, context: BrowserContext
) -> None:
    partition = {
        "partition": 0, "leader": 2, "leader_epoch": 5, "replicas": [2, 1], "isr": [2],
        "offline": [], "log_start_offset": 10, "high_watermark": 90, "last_stable_offset": 80,
    }  # fmt: skip
    topic = state(1_002, "topic", "t", name="t", internal=False, partitions=[partition],
                  configs=None)  # fmt: skip
    live.stream.first = [{**HELLO, "minikafka": False}, node(1), node(2), topic]
    page = open_tab(context, f"{live.url}#/lanes")
    lane = page.get_by_role("listitem", name="t-0 on broker 2")
    expect(lane).to_have_accessible_name(
        "t-0 on broker 2, leader, in the ISR, log start 10, high watermark 90, "
        "last stable offset 80, log end 90"
    )
    follower = page.get_by_role("listitem", name="t-0 on broker 1")
    expect(follower).to_have_accessible_name("t-0 on broker 1, follower, out of the ISR")
    expect(page.get_by_label("Legend")).to_contain_text("Followers have no offsets here")


@pytest.mark.mission("GLASS-31")
def test_a_page_process_serves_its_recording(open_page: OpenPage) -> None:
    """Its stream says only that nothing is live; the page then plays the recording itself."""
    recording = RECORDINGS / "failover.ndjson"
    with page_server(None, recording=str(recording)) as server:
        page = open_page(f"{server.url}/?token={server.token}#/cluster")
        expect(page.get_by_role("list", name="Brokers").get_by_role("listitem")).to_have_count(3)
        length = len(recording.read_text().splitlines())
        expect(page.locator(".player-time")).to_contain_text(f"of {length}")
        play_to(page, 0.6)
        expect(page.get_by_role("listitem", name="Broker 1, gone")).to_be_visible()


ACTS = [
    {"name": f"broker-{verb}", "title": verb, "dry_run": False, "dangerous": verb == "kill",
     "command": f"kill {verb}",
     "fields": [{"name": "broker", "type": "broker", "required": True, "choices": [], "help": ""}]}
    for verb in ("stop", "kill", "start", "pause", "resume")
]  # fmt: skip
SUPERVISED = {
    **HELLO, "supervised": ["stop", "kill", "start", "pause", "resume"],
    "brokers_supervised": [1, 2, 4], "brokers_paused": [4],
}  # fmt: skip


@pytest.mark.mission("GLASS-35")
def test_a_card_has_buttons_where_the_page_supervises_its_broker(
    live: PageSite, context: BrowserContext
) -> None:
    """One that is there can be killed, one that is gone started, one that is paused resumed."""
    live.responses["acts"] = ACTS
    gone, silent = node(2), node(4)
    gone["changed"][0]["facts"]["online"] = False
    silent["changed"][0]["facts"]["debug"] = "h:1"
    lost = {**state(1_002, "reachable", "", debug=False, reason="lost"), "broker": 4}
    live.stream.first = [SUPERVISED, node(1), gone, node(3), silent, lost]
    page = open_tab(context, live.url)

    def buttons(broker: str) -> Locator:
        return page.get_by_role("listitem", name=broker).get_by_role("button")

    expect(buttons("Broker 4, silent")).to_have_text(["kill -15", "kill -9", "resume"])
    expect(buttons("Broker 1")).to_have_text(["kill -15", "kill -9", "pause"])
    expect(buttons("Broker 2")).to_have_text(["start"])
    expect(page.get_by_role("listitem", name="Broker 3")).to_be_visible()
    expect(buttons("Broker 3")).to_have_count(0)


@pytest.mark.mission("GLASS-24")
def test_a_broker_inside_a_process_can_be_isolated(live: PageSite, context: BrowserContext) -> None:
    live.responses["acts"] = ACTS
    silent = {**state(1_002, "reachable", "", debug=False, reason="lost"), "broker": 4}
    node_4 = node(4)
    node_4["changed"][0]["facts"]["debug"] = "h:1"
    hello = {**SUPERVISED, "supervised": ["isolate", "rejoin"], "brokers_isolated": [4]}
    live.stream.first = [hello, node(1), node_4, silent]
    page = open_tab(context, live.url)
    card = page.get_by_role("listitem", name="Broker 1")
    expect(card.get_by_role("button")).to_have_text("isolate")
    cut_off = page.get_by_role("listitem", name="Broker 4, silent")
    expect(cut_off.get_by_role("button")).to_have_text("rejoin")


@pytest.mark.mission("GLASS-35")
def test_a_read_only_page_has_no_buttons_on_cards(live: PageSite, context: BrowserContext) -> None:
    live.responses["acts"] = ACTS
    live.stream.first = [{**SUPERVISED, "read_only": True}, node(1)]
    page = open_tab(context, live.url)
    card = page.get_by_role("listitem", name="Broker 1")
    expect(card).to_be_visible()
    expect(page.get_by_role("status")).to_contain_text("read-only")
    expect(card.get_by_role("button")).to_have_count(0)
