"""The views of the data in a real browser: acts, groups, transactions, topics and records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.browser.data_fixture import (
    Records,
    cluster,
    group_inside,
    now,
    share_partition,
    state,
    transaction,
)
from tests.browser.fake_page_process import FakePageProcess
from tests.support.browser import OpenPage

VIEWS = (
    "groups",
    "groups/billing",
    "groups/returns",
    "groups/counts",
    "transactions",
    "topics",
    "topics/orders",
)
RECORDS = "records?topic=orders"


@pytest.fixture
def process() -> Iterator[FakePageProcess]:
    with cluster().running() as process:
        yield process


# The process is named before the page, so that it ends after the page is closed.
@pytest.fixture
def tab(process: FakePageProcess, open_page: OpenPage) -> Page:
    return new_tab(open_page, process)


def new_tab(open_page: OpenPage, process: FakePageProcess, view: str = "", **options: Any) -> Page:
    """A tab in a new browser context. A script error or a CSP violation fails the test."""
    refusals = ("status of 400",)  # a refused request is a line of the console; views show why
    address = f"{process.address}#/{view}"
    return open_page(address, errors=refusals, viewport={"width": 1280, "height": 900}, **options)


def opened(tab: Page, process: FakePageProcess, view: str) -> Page:
    tab.goto(f"{process.address}#/{view}")
    return tab


def act_posts(process: FakePageProcess, name: str) -> list[dict[str, Any]]:
    """What was sent to carry an act out or to try it, without previews of the command line."""
    return [
        body for path, body in process.posts if path == f"/api/do/{name}" and not body["preview"]
    ]


# -------------------------------------------------------------------------------------------- acts


@pytest.mark.mission("GLASS-70")
def test_an_act_shows_its_command_line_while_fields_change(
    tab: Page, process: FakePageProcess
) -> None:
    opened(tab, process, "topics")
    tab.get_by_role("button", name="Create topic…").click()
    dialog = tab.get_by_role("dialog", name="Create a topic")
    dialog.locator("[name=topic]").fill("invoices")
    dialog.locator("[name=partitions]").fill("6")
    line = dialog.locator(".command code")
    expect(line).to_contain_text("minikafka topics create")
    expect(line).to_contain_text("--topic invoices")
    expect(line).to_contain_text("--partitions 6")
    dialog.get_by_role("button", name="Execute").click()
    tab.wait_for_url("**/#/topics/invoices")
    assert act_posts(process, "topics-create") == [
        {"arguments": {"topic": "invoices", "partitions": 6}, "dry_run": False, "preview": False}
    ]


@pytest.mark.mission("GLASS-70")
def test_a_dialog_begins_in_its_first_field_and_names_a_missing_one(
    tab: Page, process: FakePageProcess
) -> None:
    opened(tab, process, "topics")
    tab.get_by_role("button", name="Create topic…").click()
    dialog = tab.get_by_role("dialog", name="Create a topic")
    expect(dialog.locator("[name=topic]")).to_be_focused()
    expect(dialog.locator(".command")).to_contain_text("once these fields are filled in: topic.")
    tab.keyboard.type("invoices")
    expect(dialog.locator(".command code")).to_contain_text("--topic invoices")
    previews = [body for path, body in process.posts if path == "/api/do/topics-create"]
    assert all("topic" in body["arguments"] for body in previews)


@pytest.mark.mission("GLASS-70")
def test_a_dry_run_comes_first_and_a_dangerous_act_needs_the_name(
    tab: Page, process: FakePageProcess
) -> None:
    opened(tab, process, "topics/orders")
    tab.get_by_role("button", name="Move replicas…").click()
    dialog = tab.get_by_role("dialog")
    execute = dialog.get_by_role("button", name="Execute")
    expect(execute).to_be_disabled()
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("status")).to_contain_text("nothing has changed yet")
    expect(dialog.locator("[name=plan]")).to_have_value(re.compile("version"))
    expect(execute).to_be_disabled()
    dialog.locator("[name=confirm]").fill("order")
    expect(execute).to_be_disabled()
    dialog.locator("[name=confirm]").fill("orders")
    dialog.locator("[name=throttle]").fill("1000")  # other arguments need another dry run
    expect(execute).to_be_disabled()
    dialog.get_by_role("button", name="Dry run").click()
    expect(execute).to_be_enabled()
    execute.click()
    expect(dialog.get_by_role("status")).to_contain_text("Done.")
    sent = act_posts(process, "reassign")
    assert [body["dry_run"] for body in sent] == [True, True, False]
    assert sent[-1]["arguments"]["plan"] == '{"version":1,"partitions":[]}'


@pytest.mark.mission("GLASS-70")
def test_the_button_of_a_broker_acts_on_that_broker_only(
    tab: Page, process: FakePageProcess
) -> None:
    """What is typed to confirm is the id of the broker that is killed."""
    opened(tab, process, "cluster")
    tab.locator("[data-act=broker-kill]").nth(2).click()
    broker = tab.get_by_role("dialog").locator("[name=broker]")
    expect(broker).to_have_value("3")
    expect(broker).not_to_be_editable()


@pytest.mark.mission("GLASS-70")
def test_a_failed_act_shows_the_error_and_keyboard_alone_is_enough(
    tab: Page, process: FakePageProcess
) -> None:
    opened(tab, process, "groups/billing")
    delete = tab.get_by_role("button", name="Delete group")
    delete.focus()
    tab.keyboard.press("Enter")
    dialog = tab.get_by_role("dialog")
    dialog.locator("[name=confirm]").focus()
    tab.keyboard.type("billing")
    expect(dialog.get_by_role("button", name="Execute")).to_be_enabled()
    tab.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("The group is not empty.")
    tab.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(delete).to_be_focused()


@pytest.mark.mission("GLASS-71")
def test_a_read_only_page_carries_out_nothing(open_page: OpenPage) -> None:
    with cluster(read_only=True).running() as process:
        tab = new_tab(open_page, process, "topics/orders")
        delete = tab.get_by_role("button", name="Delete topic…")
        expect(delete).to_have_attribute("aria-disabled", "true")
        expect(delete).to_have_attribute("title", re.compile("--read-only"))
        delete.click(force=True)
        expect(tab.get_by_role("dialog")).to_have_count(0)
        assert process.posts == []


@pytest.mark.mission("GLASS-71")
def test_a_recording_has_no_acts_and_no_requests(open_page: OpenPage) -> None:
    with cluster(live=False).running() as process:
        tab = new_tab(open_page, process)
        tab.goto(f"{process.address}?recording=recording.ndjson#/topics/orders")
        for _ in process.messages:
            tab.get_by_role("button", name="The next message").click()
        process.gets.clear()
        expect(tab.get_by_role("heading", name="3 partitions")).to_be_visible()
        expect(tab.locator("[data-act]")).to_have_count(0)
        tab.evaluate("location.hash = '#/groups'")
        expect(tab.get_by_role("link", name="billing")).to_be_visible()
        assert process.gets == []


# ------------------------------------------------------------------------------------------ groups


@pytest.mark.mission("GLASS-72")
def test_the_phase_of_a_group_moves_and_members_wait(tab: Page, process: FakePageProcess) -> None:
    opened(tab, process, "groups/billing")
    lit = tab.get_by_role("img", name=re.compile(r"Stable, the phase now"))
    expect(lit).to_be_visible()
    expect(tab.get_by_label("Heartbeat due in 22 s")).to_be_visible()
    process.send(state(2, group_inside("PreparingRebalance", awaits_join=True)))
    lit = tab.get_by_role("img", name=re.compile(r"PreparingRebalance, the phase now"))
    expect(lit).to_be_visible()
    expect(tab.get_by_text("in JoinGroup")).to_have_count(2)


@pytest.mark.mission("G848-13")
def test_members_of_a_consumer_group_have_epochs_and_wait(module_page: Page) -> None:
    found = module_page.evaluate(
        """async ([facts, inside]) => {
            const { membersOf } = await import("/static/parts/group_detail.js");
            const { emptyState } = await import("/static/reducer.js");
            return membersOf("shipping", facts, { broker: 1, facts: inside }, emptyState())
                .map(({ client, epoch, target, waits }) => [client, epoch, target, waits]);
        }""",
        [
            {
                "members": [
                    {"member_id": id, "client_id": id, "epoch": epoch, "target_assignment": target}
                    for id, epoch, target in (("m1", 1, {"t": [0]}), ("m2", 2, {"t": [1, 2]}))
                ]
            },
            {
                "members": [
                    {"member": id, "client": id, "state": state}
                    for id, state in (("m1", "UNREVOKED_PARTITIONS"), ("m2", "STABLE"))
                ]
            },
        ],
    )
    assert found == [["m1", 1, "t: 0", "to revoke"], ["m2", 2, "t: 1, 2", ""]]


@pytest.mark.mission("SHR-21")
def test_a_share_group_shows_the_states_of_records_in_flight(
    tab: Page, process: FakePageProcess
) -> None:
    process.send(state(1, share_partition()))
    opened(tab, process, "groups")
    listed = tab.get_by_role("region", name="Table of groups")
    expect(listed.locator("tbody tr").nth(2)).to_contain_text("share")
    listed.get_by_role("link", name="returns").click()
    rows = tab.get_by_role("region", name="Share-partitions of the group").locator("tbody tr")
    expect(rows).to_have_count(2)
    cells = rows.first.locator("td").all_inner_texts()
    assert cells[2:] == ["100", "139", "46", "8", "18", "12", "2", "3", "1: 18, 2: 8"]
    assert rows.nth(1).locator("td").all_inner_texts()[2:6] == ["100", "–", "40", "–"]
    figure = tab.get_by_role("figure", name="In flight of orders-0")
    held = figure.get_by_role(
        "img", name=re.compile("offsets 100 to 109: acquired by share-a, for")
    )
    expect(held).to_be_visible()
    expect(figure.get_by_role("img", name=re.compile("120 to 123.*being written"))).to_be_visible()
    figure.get_by_role("button", name="as table").click()
    expect(figure.locator("tbody tr")).to_have_count(6)
    expect(tab.get_by_role("region", name="Offsets")).to_have_count(0)
    runs = share_partition()[2]["runs"][:1]
    process.send(state(1, (*share_partition()[:2], {**share_partition()[2], "runs": runs})))
    expect(figure.locator("tbody tr")).to_have_count(1)


@pytest.mark.mission("STR-11")
def test_a_streams_group_shows_the_tasks_of_its_members(
    tab: Page, process: FakePageProcess
) -> None:
    opened(tab, process, "groups/counts")
    members = tab.get_by_role("region", name="Members of the group").locator("tbody tr")
    expect(members).to_have_count(2)
    expect(members.first).to_contain_text("0: 0, 1; 1: 0")
    expect(members.first).to_contain_text("10.0.0.1:7070")
    expect(tab.locator("dl.facts")).to_contain_text("topology epoch")
    sources = tab.get_by_role("region", name="Subtopologies of the group").locator("tbody tr")
    expect(sources.nth(1)).to_contain_text("counts-by-customer-repartition")
    expect(tab.get_by_label("New offset of orders:1")).to_have_count(0)  # no reset


@pytest.mark.mission("GLASS-73")
def test_lag_lines_have_a_table_twin_that_grows(tab: Page, process: FakePageProcess) -> None:
    opened(tab, process, "groups/billing")
    lines = tab.get_by_role("img", name=re.compile(r"Lag of group billing: orders-0 60"))
    expect(lines.locator("canvas")).to_be_visible()
    figure = tab.get_by_role("figure", name="Committed and end")
    figure.get_by_label("partition").select_option("orders-1")
    figure.get_by_role("button", name="as table").click()
    rows = figure.locator("tbody tr")
    expect(rows.nth(1)).to_be_visible()  # a second point has come by itself
    cells = [int(text.replace(",", "")) for text in rows.first.locator("td").all_inner_texts()[1:]]
    committed, end, lag = cells
    assert committed == 500
    assert end - committed == lag


@pytest.mark.mission("GLASS-74")
def test_offsets_lead_to_their_records_and_are_reset_to_a_time(
    tab: Page, process: FakePageProcess
) -> None:
    opened(tab, process, "groups/billing")
    next_records = tab.get_by_role("region", name="Offsets", exact=True).get_by_role(
        "link", name="500", exact=True
    )
    expect(next_records).to_have_attribute(
        "href", "#/records?topic=orders&partition=1&from=offset%3A500"
    )
    tab.get_by_role("button", name="Reset to earliest, latest or a time…").click()
    dialog = tab.get_by_role("dialog")
    dialog.locator("[name=datetime]").fill("2026-01-31T12:00:00")
    expect(dialog.locator(".command code")).to_contain_text("--to-datetime 2026-01-31T12:00:00")


@pytest.mark.mission("GLASS-74")
def test_offsets_are_reset_to_exact_values_beside_their_ends(
    tab: Page, process: FakePageProcess
) -> None:
    opened(tab, process, "groups/billing")
    tab.get_by_label("New offset of orders:1").fill("777")
    tab.get_by_label("New offset of orders:2").fill("0")
    expect(tab.locator("label.new-offset").nth(2)).to_contain_text("of 400")
    tab.get_by_label("New offset of orders:0").fill("99999")
    expect(tab.get_by_text("beyond the end")).to_be_visible()
    tab.get_by_label("New offset of orders:0").fill("")
    tab.get_by_role("button", name="Reset 2 offsets…").click()
    dialog = tab.get_by_role("dialog")
    dialog.get_by_role("button", name="Dry run").click()
    dialog.locator("[name=confirm]").fill("billing")
    dialog.get_by_role("button", name="Execute").click()
    expect(dialog.get_by_role("status")).to_contain_text("Done.")
    tried, real = act_posts(process, "groups-reset-offsets")
    assert real["arguments"] == {"group": "billing", "offsets": "orders:1=777,orders:2=0"}
    assert (tried["dry_run"], real["dry_run"]) == (True, False)


# ------------------------------------------------------------------------------------ transactions


@pytest.mark.mission("GLASS-75")
def test_a_transaction_goes_through_its_lane(tab: Page, process: FakePageProcess) -> None:
    opened(tab, process, "transactions")
    expect(tab.get_by_role("img", name=re.compile("payments-1: Ongoing"))).to_be_visible()
    prepared = tab.get_by_role("img", name=re.compile("payments-2: PrepareCommit"))
    expect(prepared).to_have_attribute("aria-label", re.compile("2 of 3 end markers written"))
    expect(prepared.locator(".txn-mark.written")).to_have_count(2)
    expect(prepared.locator(".txn-mark.missing")).to_have_count(1)
    process.send(state(2, transaction("payments-2", "CompleteCommit", partitions=0)))
    expect(tab.get_by_role("img", name=re.compile("payments-2: CompleteCommit"))).to_be_visible()
    expect(prepared).to_be_visible()  # what was stays in the lane
    figure = tab.get_by_role("figure", name="Swim lanes")
    figure.get_by_role("button", name="as table").click()
    expect(figure.get_by_role("cell", name="CompleteCommit")).to_be_visible()


@pytest.mark.mission("GLASS-122")
def test_the_address_of_transactions_says_which_are_shown(
    tab: Page, process: FakePageProcess
) -> None:
    opened(tab, process, "transactions")
    tab.get_by_placeholder("Search transactional ids").fill("payments")
    tab.get_by_label("only open ones").check()
    tab.get_by_label("time").select_option("last 5 minutes")
    tab.wait_for_url("**/#/transactions/payments?open=1&seconds=300")
    tab.reload()
    expect(tab.get_by_placeholder("Search transactional ids")).to_have_value("payments")
    expect(tab.get_by_label("only open ones")).to_be_checked()
    expect(tab.get_by_label("time")).to_have_value("300000")


@pytest.mark.mission("GLASS-75")
def test_a_hanging_transaction_is_found_and_aborted(tab: Page, process: FakePageProcess) -> None:
    row = {
        "Topic": "orders",
        "Partition": 1,
        "ProducerId": 1000,
        "ProducerEpoch": 3,
        "CoordinatorEpoch": 0,
        "StartOffset": 42,
        "LastTimestamp": now(),
        "Duration(min)": 20,
    }
    process.replies["/api/do/transactions-find-hanging"] = lambda query, body: {
        "command": "",
        "status": 0,
        "output": [row],
        "errors": "",
    }
    opened(tab, process, "transactions")
    tab.get_by_role("button", name="Find hanging transactions").click()
    tab.get_by_role("button", name="Abort…", exact=True).click()
    dialog = tab.get_by_role("dialog")
    dialog.locator("[name=confirm]").fill("orders")
    dialog.get_by_role("button", name="Execute").click()
    expect(dialog.get_by_role("status")).to_contain_text("Done.")
    (sent,) = act_posts(process, "transactions-abort")
    assert sent["arguments"] == {"topic": "orders", "partition": 1, "start_offset": 42}


# ------------------------------------------------------------------------------------------ topics


@pytest.mark.mission("GLASS-76")
def test_a_list_of_ten_thousand_topics_is_read_a_page_at_a_time(
    tab: Page, process: FakePageProcess
) -> None:
    opened(tab, process, "topics")
    topics = tab.get_by_role("region", name="Table of topics")
    expect(tab.get_by_text("1–100 of 10,000")).to_be_visible()
    expect(topics.locator("tbody tr")).to_have_count(100)
    tab.get_by_role("button", name="Next").click()
    expect(topics.get_by_role("link", name="topic-00099", exact=True)).to_be_visible()
    tab.get_by_role("button", name="Previous").click()
    tab.get_by_role("searchbox").fill("099")
    expect(topics.get_by_role("link", name="topic-09999", exact=True)).to_have_count(0)
    tab.get_by_role("searchbox").fill("09998")
    topics.get_by_role("link", name="topic-09998").click()
    tab.wait_for_url("**/#/topics/topic-09998")
    assert all(
        int(query.get("limit", 0)) <= 100 for path, query in process.gets if path == "/api/topics"
    )


@pytest.mark.mission("GLASS-76")
def test_a_topic_shows_replicas_out_of_sync_and_where_settings_come_from(
    tab: Page, process: FakePageProcess
) -> None:
    opened(tab, process, "topics/orders")
    replicas = tab.get_by_role("img", name="Replicas 1, 2, 3; in sync 1, 2", exact=True)
    expect(replicas).to_be_visible()
    tab.get_by_label("only changed ones").check()
    settings = tab.get_by_role("region", name="Settings of orders")
    expect(settings.locator("tbody tr")).to_have_count(1)
    expect(settings).to_contain_text("3600000 (1 h)")
    expect(settings).to_contain_text("604800000 (7 d)")
    settings.get_by_role("button", name="Default", exact=True).last.click()
    dialog = tab.get_by_role("dialog")
    expect(dialog.locator(".command code")).to_contain_text("--delete-config retention.ms")


@pytest.mark.mission("GLASS-76")
def test_moves_of_a_topic_are_verified_and_cancelled(tab: Page, process: FakePageProcess) -> None:
    opened(tab, process, "topics/orders")
    cancel = tab.get_by_role("button", name="Cancel moves…")
    verify = tab.get_by_role("button", name="Verify moves…")
    expect(verify).to_be_visible()
    expect(cancel).to_have_count(0)
    move = {"replicas": [3, 1, 2], "adding": [3], "removing": [2]}
    process.send(state(None, ("reassignment", "orders-0", move)))
    cancel.click()
    dialog = tab.get_by_role("dialog")
    line = dialog.locator(".command code")
    expect(line).to_contain_text('[{"topic":"orders","partition":0,"replicas":[3,1]}]')
    expect(line).to_contain_text("--cancel")
    tab.keyboard.press("Escape")
    verify.click()
    expect(tab.get_by_role("dialog").locator(".command code")).to_contain_text("--verify")


# ----------------------------------------------------------------------------------------- records


def shown_records(tab: Page) -> Locator:
    return tab.locator("tr[data-record]")


@pytest.mark.mission("GLASS-77")
def test_records_are_browsed_by_offset_filter_and_page(tab: Page, process: FakePageProcess) -> None:
    opened(tab, process, "records?topic=orders")
    expect(shown_records(tab)).to_have_count(100)
    tab.locator("[name=start]").select_option("offset")
    tab.locator("[name=offset]").fill("10")
    tab.locator("[name=limit]").fill("100")
    tab.get_by_role("button", name="Browse").click()
    expect(shown_records(tab).first).to_have_attribute("data-record", "1:10")
    tab.get_by_role("button", name="Read more").click()
    expect(shown_records(tab)).to_have_count(200)
    tab.locator("[name=filter]").fill('"order":20}')
    tab.locator("[name=filter]").fill('"order":20,')
    tab.locator("[name=start]").select_option("earliest")
    tab.get_by_role("button", name="Browse").click()
    expect(shown_records(tab)).to_have_count(1)
    tab.get_by_role("button", name="Record 2:20").click()
    detail = tab.locator(".record-body")
    expect(detail.locator("pre")).to_contain_text('  "id": 12345678901234567890,')
    expect(detail.get_by_role("table", name="Headers")).to_contain_text("t-20")


@pytest.mark.mission("GLASS-78")
def test_a_tail_shows_new_records_and_keeps_them_when_stopped(
    tab: Page, process: FakePageProcess
) -> None:
    opened(tab, process, "records")
    tab.locator("[name=topic]").fill("orders")
    tab.locator("[name=start]").select_option("latest")
    with tab.expect_response(re.compile("/api/records.*from=latest")):  # the end is known by then
        tab.get_by_role("button", name="Tail").click()
    expect(tab.get_by_text("waiting for more")).to_be_visible()
    produce = process.replies["/api/produce"]
    for number in range(3):
        produce({}, {"topic": "orders", "key": None, "value": f"new {number}", "headers": []})
    expect(shown_records(tab)).to_have_count(3)
    expect(shown_records(tab).first).to_contain_text("new 2")  # the newest is on top
    tab.get_by_role("button", name="Stop").click()
    expect(tab.get_by_text("waiting for more")).to_have_count(0)
    produce({}, {"topic": "orders", "key": None, "value": "unseen", "headers": []})
    expect(shown_records(tab)).to_have_count(3)
    tab.get_by_role("button", name="Tail").click()  # goes on where it was stopped
    expect(shown_records(tab)).to_have_count(4)


@pytest.mark.mission("GLASS-78")
def test_a_tail_keeps_at_most_two_thousand_records(tab: Page, process: FakePageProcess) -> None:
    produce = process.replies["/api/produce"]
    for number in range(2100 - 250):
        produce({}, {"topic": "orders", "key": None, "value": f"{number}", "headers": []})
    opened(tab, process, "records")
    tab.locator("[name=topic]").fill("orders")
    tab.locator("[name=start]").select_option("earliest")
    tab.get_by_role("button", name="Tail").click()
    expect(tab.get_by_text("100 older ones were dropped")).to_be_visible()
    expect(shown_records(tab)).to_have_count(2000)


@pytest.mark.mission("GLASS-79")
def test_a_record_is_edited_and_written_again(tab: Page, process: FakePageProcess) -> None:
    opened(tab, process, "records?topic=orders")
    tab.get_by_role("button", name="Record 0:150").click()
    tab.get_by_role("button", name="Edit and replay").click()
    form = tab.get_by_role("form", name="Produce a record")
    expect(form.locator("[name=produce-key]")).to_have_value("customer-3")
    form.locator("[name=produce-value]").fill('{"order":150,"paid":false}')
    form.get_by_role("button", name="Produce", exact=True).click()
    expect(form.get_by_role("status")).to_contain_text("at offset 250")
    expect(shown_records(tab)).to_have_count(101)  # the new one is read at once
    (body,) = [body for path, body in process.posts if path == "/api/produce"]
    assert body == {
        "topic": "orders",
        "partition": 0,
        "key": "customer-3",
        "value": '{"order":150,"paid":false}',
        "headers": [["trace", "t-150"]],
        "encoding": "utf8",
        "count": 1,
    }
    form.locator("[name=produce-topic]").fill("missing")
    form.get_by_role("button", name="Produce", exact=True).click()
    expect(form.get_by_role("alert")).to_contain_text("does not exist")


@pytest.mark.mission("GLASS-79")
def test_the_first_record_of_a_topic_is_shown_once_it_is_written(
    tab: Page, process: FakePageProcess
) -> None:
    empty = Records(0)
    process.replies.update({"/api/records": empty.read, "/api/produce": empty.produce})
    opened(tab, process, "records?topic=orders")
    expect(tab.get_by_text("There are no records there")).to_be_visible()
    tab.get_by_role("button", name="Produce…").click()
    form = tab.get_by_role("form", name="Produce a record")
    form.locator("[name=no-key]").uncheck()
    form.locator("[name=produce-key]").fill("a")
    form.locator("[name=produce-value]").fill("first")
    form.get_by_role("button", name="Produce", exact=True).click()
    expect(shown_records(tab)).to_have_count(1)


@pytest.mark.mission("GLASS-79")
def test_an_export_has_the_query_of_the_view(tab: Page, process: FakePageProcess) -> None:
    opened(tab, process, "records?topic=orders&partition=2&offset=17")
    tab.locator("[name=filter]").fill("paid")
    link = tab.get_by_role("link", name="Export CSV")
    address = "api/export?topic=orders&partition=2&from=offset%3A17&contains=paid&format=csv"
    expect(link).to_have_attribute("href", address)


# ----------------------------------------------------------------------------------- for everybody


def serious(tab: Page) -> list[str]:
    """Return what axe-core finds that keeps people out, each with the first element."""
    found = Axe().run(tab, options={"runOnly": ["wcag2a", "wcag2aa", "best-practice"]})
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.mission("GLASS-70")
@pytest.mark.parametrize("view", [*VIEWS, RECORDS])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(
    process: FakePageProcess, open_page: OpenPage, view: str, scheme: str
) -> None:
    tab = new_tab(open_page, process, view, color_scheme=scheme)
    if view == RECORDS:
        tab.get_by_role("button", name="Record 0:150").click()
        tab.get_by_role("button", name="Edit and replay").click()
    expect(tab.locator("main .card, main .twin").first).to_be_visible()
    assert serious(tab) == []


@pytest.mark.mission("GLASS-70")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_the_dialog_of_an_act(
    process: FakePageProcess, open_page: OpenPage, scheme: str
) -> None:
    tab = new_tab(open_page, process, "topics/orders", color_scheme=scheme)
    tab.get_by_role("button", name="Move replicas…").click()
    tab.get_by_role("button", name="Dry run").click()
    expect(tab.get_by_text("nothing has changed yet")).to_be_visible()
    assert serious(tab) == []


@pytest.mark.mission("GLASS-70")
@pytest.mark.parametrize("view", [*VIEWS, RECORDS])
def test_a_view_fits_a_narrow_screen(
    process: FakePageProcess, open_page: OpenPage, view: str
) -> None:
    tab = new_tab(open_page, process)
    tab.set_viewport_size({"width": 320, "height": 640})
    opened(tab, process, view)
    expect(tab.locator("main .card, main .twin").first).to_be_visible()
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
