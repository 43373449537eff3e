"""What all views share in a real browser: keys, addresses, dialogs, links, words for nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.data_fixture import cluster, hello, node, state
from tests.browser.fake_page_process import FakePageProcess, Refusal
from tests.browser.test_parts import call
from tests.support.browser import OpenPage


@pytest.fixture
def process() -> Iterator[FakePageProcess]:
    with cluster().running() as process:
        yield process


# The process is named before the page, so that it ends after the page is closed.
@pytest.fixture
def tab(process: FakePageProcess, open_page: OpenPage) -> Page:
    return open_page(process.address, errors=("status of 400",))


def opened(tab: Page, process: FakePageProcess, view: str) -> Page:
    tab.goto(f"{process.address}#/{view}")
    return tab


@pytest.mark.mission("GLASS-128")
@pytest.mark.parametrize("view", ["topics", "groups", "events", "records", "topics/orders"])
def test_a_slash_goes_to_the_search_of_the_view(
    tab: Page, process: FakePageProcess, view: str
) -> None:
    opened(tab, process, view)
    search = tab.locator("main input[type=search]").first
    expect(search).to_be_visible()
    tab.keyboard.press("/")
    expect(search).to_be_focused()
    tab.keyboard.type("a/b")
    expect(search).to_have_value("a/b")


@pytest.mark.mission("GLASS-128")
def test_the_help_of_keys_names_the_search(tab: Page) -> None:
    tab.keyboard.press("?")
    row = tab.get_by_role("dialog").get_by_role("row", name="/ goes to the search of the view")
    expect(row).to_be_visible()


@pytest.mark.mission("GLASS-129")
def test_an_address_that_is_cut_shows_its_view(tab: Page, process: FakePageProcess) -> None:
    def unknown(query: object, body: object) -> object:
        raise Refusal("There is no topic.")

    process.replies["/api/topics/%E0%A4%A"] = unknown
    opened(tab, process, "topics/%E0%A4%A")
    tab.reload()
    expect(tab.get_by_role("alert")).to_contain_text("There is no topic.")


@pytest.mark.mission("GLASS-129")
def test_a_cluster_that_is_not_read_yet_says_so(open_page: OpenPage) -> None:
    with FakePageProcess([hello(brokers_supervised=[])], {}).running() as process:
        tab = open_page(process.address, errors=("status of 400",))
        expect(tab.get_by_text("Reading the cluster…")).to_be_visible()
        process.send(state(None, node(1), reset=True))
        expect(tab.get_by_role("listitem", name="Broker 1")).to_be_visible()
        tab.close()


@pytest.mark.mission("GLASS-129")
@pytest.mark.parametrize("view", ["topics", "topics/orders"])
def test_the_line_of_a_link_leaves_its_underscores(
    tab: Page, process: FakePageProcess, view: str
) -> None:
    opened(tab, process, view)
    expect(tab.locator("main table").first).to_be_visible()  # the links before are replaced
    link = tab.locator("main a:not(.button)").first
    expect(link).to_be_visible()
    line, underscore = link.evaluate(
        """(link) => {
            const style = getComputedStyle(link);
            const canvas = document.createElement("canvas").getContext("2d");
            canvas.font = style.font;
            const size = parseFloat(style.fontSize);
            const offset = style.textUnderlineOffset;
            return [parseFloat(offset), canvas.measureText("_").actualBoundingBoxDescent];
        }"""
    )
    assert line > underscore


@pytest.mark.mission("GLASS-129")
def test_help_texts_of_a_dialog_stay_in_their_columns(tab: Page, process: FakePageProcess) -> None:
    opened(tab, process, "topics/orders")
    tab.get_by_role("button", name="Change settings…").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog.locator("[name=add]")).to_be_visible()
    over = dialog.evaluate(
        """(dialog) => [...dialog.querySelectorAll(".field")].filter((field) =>
            field.scrollWidth > field.clientWidth).map((field) => field.textContent)"""
    )
    assert over == []


@pytest.mark.mission("GLASS-129")
def test_an_act_that_is_done_is_not_done_again(tab: Page, process: FakePageProcess) -> None:
    opened(tab, process, "topics/orders")
    tab.get_by_role("button", name="Add partitions…").click()
    dialog = tab.get_by_role("dialog")
    execute = dialog.get_by_role("button", name="Execute")
    execute.click()
    expect(dialog.get_by_role("status")).to_contain_text("Done.")
    expect(execute).to_be_disabled()
    dialog.locator("[name=partitions]").press("Enter")
    dialog.locator("[name=partitions]").fill("9")
    expect(execute).to_be_enabled()
    done = [body for path, body in process.posts if path == "/api/do/topics-alter"]
    assert len([body for body in done if not body["preview"]]) == 1


@pytest.mark.mission("GLASS-129")
def test_only_a_paused_broker_is_resumed(tab: Page, process: FakePageProcess) -> None:
    names = ("2", "3")
    gone = [("node", name, {**node(int(name))[2], "online": False}) for name in names]
    process.send(hello(brokers_paused=[3]))
    process.send(state(None, node(1), *gone, reset=True))
    dead, paused = (tab.get_by_role("listitem", name=f"Broker {name}, gone") for name in names)
    expect(dead.get_by_role("button", name="start")).to_be_visible()
    expect(dead.get_by_role("button", name="resume")).to_have_count(0)
    expect(paused.get_by_role("button", name="resume")).to_be_visible()
    expect(paused.get_by_role("button", name="start")).to_have_count(0)


@pytest.mark.mission("GLASS-129")
def test_an_api_without_requests_in_the_last_minute_has_no_percentiles(module_page: Page) -> None:
    none = {"mean_us": 90, "p50_us": 0, "p99_us": 0, "max_us": 0}
    some = {"mean_us": 90, "p50_us": 80, "p99_us": 95, "max_us": 99}
    rows = [{"phases": {"total": total, "queue": none}} for total in (none, some)]
    phases = '["total", "queue"].map((phase) => m.timeOf(row, phase, "p50_us"))'
    code = f"return given.map((row) => {phases})"
    assert call(module_page, "views/requests.js", code, rows) == [[None, None], [80, 0]]
