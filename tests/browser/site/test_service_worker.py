"""The service worker keeps one version of a site, and changes to a new one as a whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from minikafka.page.learn.site import keep_offline
from scripts.lib.static_server import serving
from tests.support.browser import OpenPage

_PAGE = """<!doctype html><link rel=icon href=data:,><p id=page>{version}<p id=script>
<script type=module src=static/show.js></script>"""
_SCRIPT = """
document.getElementById("script").textContent = "{version}";
await navigator.serviceWorker.register("service_worker.js");
const found = await navigator.serviceWorker.ready;
await found.update();
document.body.dataset.kept = String(!found.installing);
"""
REGISTRATION = """async () => (await navigator.serviceWorker.getRegistration("/site/"))"""


def write(site: Path, version: str, age_seconds: int) -> None:
    """Write a version that is some seconds old: the server dates files to the second, and tells a
    browser that has a file of this date that nothing has changed."""
    (site / "static").mkdir(exist_ok=True)
    (site / "index.html").write_text(_PAGE.format(version=version))
    (site / "static" / "show.js").write_text(_SCRIPT.format(version=version))
    keep_offline(site)
    for path in site.rglob("*"):
        changed = path.stat().st_mtime - age_seconds
        os.utime(path, (changed, changed))


def shown(page: Page) -> tuple[str, str]:
    expect(page.locator("body[data-kept]")).to_be_attached()
    return page.locator("#page").inner_text().strip(), page.locator("#script").inner_text()


@pytest.mark.mission("LEARN-64")
def test_a_new_version_is_shown_once_no_tab_has_the_old_one(
    tmp_path: Path, open_page: OpenPage
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (tmp_path / "beside.html").write_text("<!doctype html><link rel=icon href=data:,>")
    write(site, "old", age_seconds=60)
    with serving(tmp_path) as server:
        # The last visit asks for a newer version without a network.
        page = open_page(server.url + "site/", errors=("Failed to update a ServiceWorker",))
        assert shown(page) == ("old", "old")
        write(site, "new", age_seconds=0)
        page.reload()
        assert shown(page) == ("old", "old")  # and the new one is stored meanwhile
        page.wait_for_function(REGISTRATION + ".waiting !== null")
        page.goto(server.url + "beside.html")
        page.wait_for_function(REGISTRATION + ".waiting === null")
        page.wait_for_function(REGISTRATION + '.active.state === "activated"')
        page.goto(server.url + "site/")
        assert shown(page) == ("new", "new")
        server.stop()
        page.goto(server.url + "site/?any=thing")
        expect(page.locator("#script")).to_have_text("new")
        assert len(page.evaluate("caches.keys()")) == 1
