"""What tests of the page share: a Chromium, a site that serves the page, pages that watch errors.

Chromium is started for each module and not for the session: Playwright's synchronous API keeps a
loop running while it lives, in which the asyncio tests of other modules could not start theirs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.browser import TIMEOUT_MS, OpenPage, watch_errors
from tests.support.page_site import PageSite, page_site

# The first one has no windows and no services of a desktop: it takes half of the processor time.
CANDIDATES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
expect.set_options(timeout=TIMEOUT_MS)


def chromium_path() -> str | None:
    """Return Debian's Chromium, or what ``MINIKAFKA_CHROMIUM`` names."""
    named = os.environ.get("MINIKAFKA_CHROMIUM")
    return named or next((path for name in CANDIDATES if (path := shutil.which(name))), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = chromium_path()
    if path is None:
        pytest.skip("there is no Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def site() -> Iterator[PageSite]:
    with page_site() as served:
        yield served


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[OpenPage]:
    """Opens an address in a page of a context by itself. Whatever a page reports as an error fails
    the test at its end; ``errors`` lists texts that may be among them."""
    contexts = []
    problems: list[str] = []

    def open_one(url: str, *, errors: tuple[str, ...] = (), **options: Any) -> Page:
        context = chromium.new_context(**{"reduced_motion": "reduce", **options})
        contexts.append(context)
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        watch_errors(page, problems, errors)
        page.goto(url)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def module_page(site: PageSite, open_page: OpenPage) -> Page:
    """An empty page of the site, from which a test imports single modules of the page."""
    return open_page(site.url + "blank")
