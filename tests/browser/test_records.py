"""Records in a real browser: searches that go on, the address of a query, decodings."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.browser.data_fixture import Records, cluster, record
from tests.browser.fake_page_process import FakePageProcess, Query, Refusal
from tests.support.browser import OpenPage

SIZE = {"width": 1280, "height": 900}


@pytest.fixture
def process() -> Iterator[FakePageProcess]:
    with cluster().running() as process:
        yield process


# The process is named before the page, so that it ends after the page is closed.
@pytest.fixture
def tab(process: FakePageProcess, open_page: OpenPage) -> Page:
    return open_page(process.address, errors=("status of 400",), viewport=SIZE)


def opened(tab: Page, process: FakePageProcess, view: str) -> Page:
    tab.goto(f"{process.address}#/{view}")
    return tab


def shown_records(tab: Page) -> Locator:
    return tab.locator("tr[data-record]")


def status(tab: Page) -> Locator:
    return tab.get_by_role("region", name="Records").get_by_role("status")


def browse(tab: Page) -> None:
    tab.get_by_role("button", name="Browse").click()


def queries(process: FakePageProcess) -> list[Query]:
    return [query for path, query in process.gets if path == "/api/records"]


def serve(process: FakePageProcess, records: Records) -> Records:
    process.replies.update({"/api/records": records.read, "/api/produce": records.produce})
    return records


@pytest.mark.mission("GLASS-122")
def test_the_form_is_there_once_the_page_knows_its_cluster(
    tab: Page, process: FakePageProcess
) -> None:
    """What is typed into it is not overwritten by the address."""
    messages, process.messages = process.messages, []
    opened(tab, process, "records?topic=orders")
    topic = tab.locator("[name=topic]")
    expect(tab.get_by_role("navigation").first).to_be_visible()
    expect(topic).to_have_count(0)
    for message in messages:
        process.send(message)
    topic.fill("payments")
    expect(shown_records(tab)).to_have_count(100)
    expect(topic).to_have_value("payments")


# ---------------------------------------------------------------------------------------- searches


@pytest.mark.mission("GLASS-120")
def test_a_search_goes_on_until_it_has_looked_at_everything(
    tab: Page, process: FakePageProcess
) -> None:
    """Its match is in the last of four requests, the others have no rows."""
    serve(process, Records(700, step=200)).rows[650] = record(650, value="needle")
    opened(tab, process, "records?topic=orders&from=earliest&contains=needle")
    expect(shown_records(tab)).to_have_count(1)
    expect(status(tab)).to_have_text("1 found; looked at 700 of 700 records")
    assert len(queries(process)) == 4
    expect(tab.locator("[data-do=more]")).to_have_count(0)


@pytest.mark.mission("GLASS-120")
def test_a_search_is_stopped_and_goes_on_where_it_was(tab: Page, process: FakePageProcess) -> None:
    records = serve(process, Records(100_000, step=100))
    opened(tab, process, "records?topic=orders&from=earliest&contains=needle")
    progress = tab.get_by_role("progressbar", name="Records looked at")
    expect(progress).to_have_attribute("max", "100000")
    tab.locator("[data-do=stop]").click()
    expect(status(tab)).to_contain_text("No record matches so far; looked at")
    expect(status(tab)).to_contain_text("stopped")
    expect(tab.locator("[data-do=stop]")).to_have_count(0)
    further: list[str] = []
    tab.on("request", lambda request: further.append(request.url))
    records.step = 100_000
    tab.get_by_role("button", name="Search on").click()
    expect(status(tab)).to_have_text("No record matches; looked at 100,000 of 100,000 records")
    (url,) = [url for url in further if "/api/records" in url]
    assert "next=" in url


@pytest.mark.mission("GLASS-120")
def test_a_search_ends_if_the_brokers_send_nothing(tab: Page, process: FakePageProcess) -> None:
    nothing = {"records": [], "next": {"0": 0}, "more": True, "looked_at": 0, "order": "oldest"}
    process.replies["/api/records"] = lambda query, body: nothing
    opened(tab, process, "records?topic=orders&from=earliest")
    expect(tab.get_by_role("alert")).to_contain_text("a partition may have no leader")


@pytest.mark.mission("GLASS-120")
def test_a_search_names_what_it_cannot_read(tab: Page, process: FakePageProcess) -> None:
    records = serve(process, Records(10))
    process.replies["/api/records"] = lambda query, body: {
        **records.read(query, body),
        "unread": [2, 5, 8, 11],
        "held": 1234,
    }
    opened(tab, process, "records?topic=orders&from=earliest&contains=needle")
    expect(status(tab)).to_contain_text("No record matches; looked at")
    shown = tab.get_by_role("region", name="Records")
    expect(shown).to_contain_text("4 partitions without a leader are not read: 2, 5, 8 and 1 more.")
    expect(shown).to_contain_text("Not shown: 1,234 offsets of open transactions or behind them")


@pytest.mark.mission("GLASS-120")
def test_a_failed_query_does_not_say_that_nothing_matches(
    tab: Page, process: FakePageProcess
) -> None:
    def refuse(query: Query, body: Any) -> Any:
        raise Refusal("There is no topic orders.")

    process.replies["/api/records"] = refuse
    opened(tab, process, "records?topic=orders")
    expect(tab.get_by_role("alert")).to_have_text("There is no topic orders.")
    expect(status(tab)).to_have_text("")


@pytest.mark.mission("GLASS-121")
def test_the_last_records_come_newest_first_and_older_ones_behind_them(
    tab: Page, process: FakePageProcess
) -> None:
    opened(tab, process, "records?topic=orders&from=last:40")
    expect(shown_records(tab)).to_have_count(40)
    expect(shown_records(tab).first).to_have_attribute("data-record", "0:249")
    tab.get_by_role("button", name="Read older").click()
    expect(shown_records(tab)).to_have_count(80)
    expect(shown_records(tab).first).to_have_attribute("data-record", "0:249")
    expect(shown_records(tab).last).to_have_attribute("data-record", "2:170")


# ------------------------------------------------------------------------------------- the address


WHOLE = {
    "topic": "orders",
    "partition": "2",
    "from": "offset:17",
    "until": "1800000000123",
    "contains": "a b&c",
    "case": "1",
    "key": "customer-3",
    "header": "trace=t-20",
    "where": '$.order.id = 42 and $.state != "done"',
    "uncommitted": "1",
    "transaction": "aborted",
    "key_as": "int64",
    "value_as": "schema",
    "limit": "7",
}


@pytest.mark.mission("GLASS-122")
def test_an_address_has_every_part_of_a_query(module_page: Page) -> None:
    script = """async (given) => {
        const m = await import("/static/parts/record_query.js");
        const isSet = ([, value]) => value !== null && value !== "";
        const words = (params) => Object.fromEntries(Object.entries(params).filter(isSet)
            .map(([name, value]) => [name, String(value)]));
        return given.map((one) => m.queryOf(one)).map((query) =>
            [words(m.addressOf(query)), words(m.requestOf(query))]);
    }"""
    times = {"topic": "orders", "from": "time:1700000000000"}
    plain = {"topic": "orders"}
    (whole, asked), (time, _), (least, default) = module_page.evaluate(
        script, [WHOLE, times, plain]
    )
    assert whole == asked == WHOLE
    assert time == times
    assert least == plain
    assert default == {"topic": "orders", "from": "last:100", "limit": "100"}


@pytest.mark.mission("GLASS-122")
def test_back_forward_and_reload_show_the_records_of_the_address(
    tab: Page, process: FakePageProcess
) -> None:
    opened(tab, process, "records?topic=orders&from=offset:240")
    expect(shown_records(tab)).to_have_count(10)
    tab.locator("[name=partition]").fill("2")
    tab.locator("[name=filter]").fill("PAID")
    tab.locator("[name=case]").check()
    browse(tab)
    expect(status(tab)).to_contain_text("No record matches; looked at")
    query = "topic=orders&partition=2&from=offset%3A240&contains=PAID&case=1"
    expect(tab).to_have_url(f"{process.address}#/records?{query}")
    tab.go_back()
    expect(shown_records(tab)).to_have_count(10)
    expect(tab.locator("[name=filter]")).to_have_value("")
    tab.go_forward()
    expect(status(tab)).to_contain_text("No record matches; looked at")
    tab.reload()
    expect(status(tab)).to_contain_text("No record matches; looked at")
    expect(tab.locator("[name=partition]")).to_have_value("2")
    expect(tab.locator("[name=filter]")).to_have_value("PAID")
    expect(tab.locator("[name=case]")).to_be_checked()


@pytest.mark.mission("GLASS-122")
def test_a_record_has_an_address(tab: Page, process: FakePageProcess) -> None:
    opened(tab, process, "records?topic=orders&value_as=int64")
    tab.get_by_role("button", name="Record 0:246").click()
    tab.get_by_role("link", name="Link").click()
    expect(shown_records(tab)).to_have_count(1)
    expect(shown_records(tab)).to_have_attribute("data-record", "0:246")
    assert "value_as=int64" in tab.url


@pytest.mark.mission("GLASS-122")
@pytest.mark.parametrize("view", ["topics", "events", "topics/orders"])
def test_a_search_of_a_list_is_in_its_address(
    tab: Page, process: FakePageProcess, view: str
) -> None:
    opened(tab, process, view)
    tab.locator("main input[type=search]").fill("topic-09")
    expect(tab).to_have_url(re.compile(rf"#/{view}\?\w+=topic-09"))
    tab.reload()
    expect(tab.locator("main input[type=search]")).to_have_value("topic-09")


@pytest.mark.mission("GLASS-122")
def test_a_page_of_a_list_is_in_its_address(tab: Page, process: FakePageProcess) -> None:
    opened(tab, process, "topics?search=topic-0")
    expect(tab.get_by_text("1–100 of 9,999 matching")).to_be_visible()
    for _ in range(2):
        tab.get_by_role("button", name="Next").click()
    expect(tab.get_by_text("201–300 of 9,999 matching")).to_be_visible()
    tab.reload()
    expect(tab.get_by_text("201–300 of 9,999 matching")).to_be_visible()
    tab.get_by_role("button", name="Previous").click()
    expect(tab.get_by_text("101–200 of 9,999 matching")).to_be_visible()
    tab.go_back()
    expect(tab.get_by_text("201–300 of 9,999 matching")).to_be_visible()
    tab.locator("main input[type=search]").fill("topic-00")
    expect(tab.get_by_text("1–100 of 1,000 matching")).to_be_visible()


# --------------------------------------------------------------------------- fields and decodings


@pytest.mark.mission("GLASS-123")
def test_fields_of_a_search_go_into_the_request_and_the_export(
    tab: Page, process: FakePageProcess
) -> None:
    opened(tab, process, "records?topic=orders&from=earliest")
    expect(shown_records(tab)).to_have_count(250)
    tab.locator("[name=key]").fill("customer-3")
    tab.locator("[name=header]").fill("trace=t-10")
    tab.locator("[name=where]").fill('"order":10,')
    tab.locator("[name=until]").fill("2030-01-02T03:04:05")
    tab.locator("[name=transactions]").select_option("aborted")
    tab.locator("[name=where]").press("Enter")
    expect(shown_records(tab)).to_have_count(1)
    asked = queries(process)[-1]
    assert asked["key"] == "customer-3"
    assert (asked["uncommitted"], asked["transaction"]) == ("1", "aborted")
    assert re.fullmatch(r"18\d{11}", asked["until"])
    href = tab.get_by_role("link", name="Export JSON").get_attribute("href")
    assert href is not None
    for word in ("key=customer-3", "header=trace%3Dt-10", "where=", "transaction=aborted"):
        assert word in href
    assert "limit" not in href
    tab.get_by_text("What an expression may say").click()
    expect(tab.locator(".expression-help")).to_contain_text("fields of the decoded value")


@pytest.mark.mission("GLASS-123")
def test_a_wrong_expression_is_explained(tab: Page, process: FakePageProcess) -> None:
    def refuse(query: Query, body: Any) -> Any:
        raise Refusal("where: a value is missing after = at character 9.")

    process.replies["/api/records"] = refuse
    opened(tab, process, "records?topic=orders&where=$.order =")
    expect(tab.get_by_role("alert")).to_contain_text("a value is missing after =")


@pytest.mark.mission("GLASS-124")
def test_decodings_are_chosen_by_topic_and_remembered(tab: Page, process: FakePageProcess) -> None:
    opened(tab, process, "records?topic=orders&from=offset:248")
    tab.locator("[name=value_as]").select_option("schema")
    first = shown_records(tab).first
    expect(first).to_contain_text("schema of 248")
    expect(first.locator(".tag", has_text="avro")).to_be_visible()
    expect(tab).to_have_url(re.compile("value_as=schema"))
    tab.get_by_role("button", name="Record 2:248").click()
    expect(tab.locator("[data-schema=value]")).to_have_text(
        "value: AVRO schema orders-value, version 3, id 7"
    )
    opened(tab, process, "records?topic=invoices&from=offset:248")
    expect(first).to_contain_text('"order":248')
    opened(tab, process, "records?topic=orders&from=offset:249")
    expect(first).to_contain_text("schema of 249")
    expect(tab).to_have_url(re.compile("value_as=schema"))  # so that a copy of the address says it
    tab.locator("[name=value_as]").select_option("auto")
    expect(first).to_contain_text('"order":249')


@pytest.mark.mission("GLASS-125")
def test_bytes_are_shown_with_what_they_are(tab: Page, process: FakePageProcess) -> None:
    hint = {"as": "int32", "text": "42"}
    key = {"as": "hex", "text": "00 00 00 2a", "schema": None, "error": None, "hint": hint}
    wrong = {"as": "schema", "text": None, "schema": None, "error": "there is no schema 9"}
    binary = {"key": "utf8", "value": "base64"}
    rows = [
        record(0, key="\x00\x00*", key_decoded=key, headers=[["h", "gAE=", "base64"]]),
        record(1, key="\x00\x01", value="AAAAAAk=", encoding=binary, value_decoded=wrong),
    ]
    rows[1]["key_decoded"] = None
    records = serve(process, Records(2))
    records.rows = rows
    opened(tab, process, "records?topic=orders&from=earliest")
    first, second = shown_records(tab).nth(0), shown_records(tab).nth(1)
    expect(first.locator(".tag", has_text="hex")).to_be_visible()
    expect(first).to_contain_text("00 00 00 2a int32 42?")
    expect(second).to_contain_text("binary ␀␁")
    expect(second.locator(".tag", has_text="not decoded")).to_be_visible()
    for name in ("Record 0:0", "Record 1:1"):
        tab.get_by_role("button", name=name).click()
    expect(tab.locator("table.headers .tag")).to_have_text("base64")
    expect(tab.get_by_text("could not be decoded: there is no schema 9")).to_be_visible()


@pytest.mark.mission("GLASS-125")
def test_a_record_stays_open_when_another_one_is_opened(
    tab: Page, process: FakePageProcess
) -> None:
    opened(tab, process, "records?topic=orders&from=earliest")
    for name in ("Record 0:3", "Record 0:6", "Record 1:7"):
        tab.get_by_role("button", name=name, exact=True).click()
    expect(tab.locator(".record-body")).to_have_count(3)


@pytest.mark.mission("GLASS-126")
def test_a_filter_applies_to_a_tail_that_is_shown(tab: Page, process: FakePageProcess) -> None:
    opened(tab, process, "records?topic=orders&from=earliest")
    tab.get_by_role("button", name="Tail").click()
    expect(shown_records(tab)).to_have_count(250)
    expect(tab).to_have_url(re.compile("tail=1"))
    expect(tab.get_by_text("waiting for more")).to_be_visible()
    tab.locator("[name=filter]").fill('"order":24')
    expect(shown_records(tab)).to_have_count(11)
    expect(tab.get_by_text("waiting for more")).to_be_visible()
    process.replies["/api/produce"](
        {}, {"topic": "orders", "key": "k", "value": '{"order":24}', "headers": []}
    )
    expect(shown_records(tab)).to_have_count(12)
    tab.get_by_role("button", name="Stop").click()
    expect(tab.get_by_text("waiting for more")).to_have_count(0)
    expect(shown_records(tab)).to_have_count(12)
    assert "tail" not in tab.url


@pytest.mark.mission("GLASS-126")
@pytest.mark.parametrize("encoding", ["utf8", "base64"])
def test_a_record_of_a_megabyte_is_written_again(
    tab: Page, process: FakePageProcess, encoding: str
) -> None:
    """A list has its beginning; the form has all of it, as base64 if its key is no text."""
    value = "x" * 1_000_000
    whole = record(0, key="AAA=", encoding={"key": encoding, "value": "utf8"}, value=value)
    records = serve(process, Records(1))

    def read(query: Query, body: Any) -> Any:
        found = records.read(query, body)
        cut = {**whole, "value": value[:1000], "truncated": True}
        return {**found, "records": [whole if "full" in query else cut]}

    process.replies["/api/records"] = read
    opened(tab, process, "records?topic=orders&from=earliest")
    tab.get_by_role("button", name="Record 0:0").click()
    tab.get_by_role("button", name="Edit and replay").click()
    form = tab.get_by_role("form", name="Produce a record")
    expect(form).to_contain_text(
        f"value, {1_000_000 if encoding == 'utf8' else 1_333_336:,} characters"
    )
    form.get_by_role("button", name="Produce", exact=True).click()
    expect(form.get_by_role("status")).to_contain_text("at offset 1")
    (sent,) = [body for path, body in process.posts if path == "/api/produce"]
    data = sent["value"].encode()
    assert (base64.b64decode(data) if encoding == "base64" else data) == value.encode()
    assert [path for path, _ in process.posts] == ["/api/produce"]  # no command line is so long


# ----------------------------------------------------------------------------------- for everybody


@pytest.mark.mission("GLASS-127")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_stopped_search_and_its_fields_keep_nobody_out(
    process: FakePageProcess, open_page: OpenPage, scheme: str
) -> None:
    serve(process, Records(20_000, step=20))
    address = (
        f"{process.address}#/records?topic=orders&from=earliest&contains=customer-3&limit=1000"
    )
    tab = open_page(address, color_scheme=scheme, viewport={"width": 320, "height": 640})
    expect(tab.locator("button.disclose").first).to_be_visible()  # it has found some
    tab.locator("[data-do=stop]").click()
    tab.get_by_text("What an expression may say").click()
    tab.locator("button.disclose").first.click()
    expect(tab.get_by_role("button", name="Search on")).to_be_visible()
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = Axe().run(tab, options={"runOnly": ["wcag2a", "wcag2aa", "best-practice"]})
    wrong = [
        one for one in found.response["violations"] if one["impact"] in ("serious", "critical")
    ]
    assert [one["id"] for one in wrong] == []
