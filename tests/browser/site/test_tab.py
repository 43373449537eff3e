"""Learn mode in a browser tab: no server but one of files, and none at all the second time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from minikafka.page.learn.chapters.table import TABLE
from minikafka.page.learn.site import CONTENT_SECURITY_POLICY
from scripts.lib.static_server import StaticServer, serving
from tests.support.browser import OpenPage
from tests.support.clicked_chapter import LIMIT_MS, click_through, play_fast

pytestmark = pytest.mark.xdist_group("site")

# One follows a message on the wire, one runs clients with transactions, and one is scored. The
# Python of a tab plays all chapters in ``test_digests.py``, and the page shows all of them over a
# server in ``test_learn_live.py``.
READ = ("a-records-way", "transactions", "playground")


@pytest.fixture
def server(built_site: Path) -> Iterator[StaticServer]:
    """Sends the policy as a header: then it also holds in the worker."""
    with serving(built_site, {"Content-Security-Policy": CONTENT_SECURITY_POLICY}) as server:
        yield server


def expect_chapter(page: Page, number: int) -> None:
    expect(page.locator(".story h2")).to_contain_text(f"{number}. ", timeout=LIMIT_MS)


@pytest.mark.mission("LEARN-63", "LEARN-64")
def test_chapters_are_clicked_through_in_a_tab_that_opens_without_a_network(
    server: StaticServer, open_page: OpenPage
) -> None:
    page = open_page(server.url)
    requested: set[str] = set()
    page.context.on("request", lambda request: requested.add(request.url))
    for number, name in TABLE.items():
        if name not in READ:
            continue
        page.evaluate("name => { location.hash = `#/stage?chapter=${name}`; }", name)
        expect_chapter(page, number)
        play_fast(page)
        assert click_through(page) > 0, name
    documents = page.get_by_role("link", name="Documents")
    expect(documents).to_have_attribute("href", "manual/index.html")
    page.locator(".code-link").first.click()
    expect(page.locator("dialog .source")).to_contain_text(re.compile(r"^(class|def|async def) "))
    page.keyboard.press("Escape")
    page.evaluate("async () => { await navigator.serviceWorker.ready; }")
    assert [url for url in requested if not url.startswith(server.url)] == []

    server.stop()
    first = min(TABLE)
    page.goto(f"{server.url}?again#/stage?chapter={TABLE[first]}")
    expect_chapter(page, first)
    said = page.locator(".beats li")
    expect(said.first).to_be_visible(timeout=LIMIT_MS)
    before = said.count()
    page.locator(".story-foot > button.primary").click()
    expect(said.nth(before)).to_be_attached(timeout=LIMIT_MS)
