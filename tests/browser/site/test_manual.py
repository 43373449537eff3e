"""The documents of the static site in a browser: tables, copy buttons, search, verbs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from minikafka.cli.main import VERBS
from minikafka.page.learn.site import CONTENT_SECURITY_POLICY
from scripts.lib import site
from scripts.lib.static_server import serving
from tests.support.browser import OpenPage

pytestmark = [pytest.mark.xdist_group("manual"), pytest.mark.mission("LEARN-66")]


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site") / "manual"
    site.write_manual(site.ROOT, directory)
    return directory


@pytest.fixture
def url(manual: Path) -> Iterator[str]:
    """The address of the documents, whose policy is also sent as a header."""
    with serving(manual, {"Content-Security-Policy": CONTENT_SECURITY_POLICY}) as server:
        yield server.url


def test_numbers_of_a_table_stand_at_its_right(url: str, open_page: OpenPage) -> None:
    page = open_page(f"{url}docs/explanation/performance.html")
    row = page.locator("tr", has_text="1 KB, 1 record").first
    expect(row.locator("td").nth(0)).to_have_css("text-align", "left")
    expect(row.locator("td").nth(1)).to_have_css("text-align", "right")


def test_a_block_is_copied(url: str, open_page: OpenPage) -> None:
    page = open_page(f"{url}docs/tutorial/learn.html")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    block = page.locator(".code", has_text="minikafka learn --site DIR").first
    block.hover()
    block.get_by_role("button", name="Copy").click()
    expect(block.get_by_role("button", name="Copied")).to_be_visible()
    first, *others = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert first.startswith("minikafka learn "), "without the prompt"
    assert all(line.startswith("minikafka learn ") for line in others)


def test_a_word_is_found_while_it_is_typed(url: str, open_page: OpenPage) -> None:
    page = open_page(url)
    page.keyboard.press("/")
    page.keyboard.type("high waterm")
    expect(page.locator("#results a").first).to_have_text("Glossary: High watermark")
    expect(page.locator("#results mark").first).to_have_text("high", ignore_case=True)
    page.keyboard.press("Escape")
    expect(page.locator("#results article")).to_have_count(0)
    page.keyboard.type("timing wheel")
    expect(page.locator("#results article").first).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url("**/docs/**")
    page.keyboard.press("/")
    page.keyboard.type("<b> nowhere")
    expect(page.locator("#results")).to_have_text("Nothing was found.")


def test_a_search_that_cannot_be_loaded_says_so_and_is_loaded_later(
    url: str, open_page: OpenPage
) -> None:
    page = open_page(url, errors=("ERR_FAILED",))
    page.route("**/search_index.json", lambda route: route.abort())
    page.keyboard.press("/")
    page.keyboard.type("purgatory")
    expect(page.locator("#results")).to_have_text("The search cannot be loaded.")
    page.unroute("**/search_index.json")
    page.keyboard.type(" ")
    expect(page.locator("#results article").first).to_be_visible()


def test_each_verb_has_a_page(url: str, open_page: OpenPage) -> None:
    page = open_page(f"{url}docs/reference/verbs.html")
    links = page.locator("main td:first-child a")
    found = {link.get_attribute("href") or "" for link in links.all()}
    assert found == {f"verbs/{verb}.html" for verb in VERBS}
    links.first.click()
    expect(page.locator("h1")).to_contain_text("minikafka up")
    expect(page.locator("td", has_text="--brokers").first).to_be_visible()
