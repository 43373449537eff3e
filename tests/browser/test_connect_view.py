"""The view of Kafka Connect in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from minikafka.client.rest import RestAddress
from minikafka.page.dashboard.acting.connect_acts import (
    CONNECT_ACTS,
    connect_act_facts,
    connect_request,
    shown_request,
)
from tests.browser.data_fixture import cluster
from tests.browser.fake_page_process import FakePageProcess, Query
from tests.browser.test_data_views import serious
from tests.support.browser import OpenPage
from tests.support.fake_connect import TRACE, WORKER

pytestmark = pytest.mark.mission("GLASS-161")
ADDRESS = RestAddress.parse("http://127.0.0.1:8083")
ROW = {
    "connector": "files",
    "type": "source",
    "state": "RUNNING",
    "worker": WORKER,
    "tasks": 2,
    "failed": 1,
    "topics": ["orders"],
}
TASKS = [
    {"task": 0, "state": "RUNNING", "worker": WORKER, "trace": ""},
    {"task": 1, "state": "FAILED", "worker": WORKER, "trace": TRACE},
]


def act(name: str) -> Any:
    def reply(_: Query, body: Any) -> dict[str, Any]:
        line = shown_request(connect_request(name, body["arguments"], body["dry_run"]), ADDRESS)
        return {"command": line, "status": 0, "output": "", "errors": ""}

    return reply


@pytest.fixture
def process() -> Iterator[FakePageProcess]:
    process = cluster()
    process.replies |= {
        "/api/acts": lambda query, body: connect_act_facts(ADDRESS),
        "/api/connect": lambda query, body: {"address": ADDRESS.url, "version": "3.9.1"},
        "/api/connectors": lambda query, body: {
            "connectors": [ROW],
            "matching": 1,
            "total": 1,
            "more": False,
        },
        "/api/connectors/files": lambda query, body: {
            **ROW,
            "trace": "",
            "parts": TASKS,
            "settings": [{"name": "topic", "value": "orders"}],
        },
        **{f"/api/do/{name}": act(name) for name in CONNECT_ACTS},
    }
    with process.running() as running:
        yield running


def is_for_everybody(tab: Page) -> None:
    assert serious(tab) == []
    tab.set_viewport_size({"width": 320, "height": 640})
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.set_viewport_size({"width": 1280, "height": 800})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_connector_is_found_and_what_failed_is_restarted(
    process: FakePageProcess, open_page: OpenPage, scheme: str
) -> None:
    tab = open_page(f"{process.address}#/cluster", color_scheme=scheme)
    tab.keyboard.press("c")
    expect(tab.get_by_text("1 failed")).to_be_visible()
    is_for_everybody(tab)
    tab.get_by_role("link", name="files").click()
    expect(tab.get_by_label("Trace of task 1")).to_contain_text("no such file")
    expect(tab.get_by_role("button", name="Restart task 0…")).to_be_visible()
    is_for_everybody(tab)
    tab.get_by_role("button", name="Restart what failed…").click()
    dialog = tab.get_by_role("dialog")
    path = "/connectors/files/restart?includeTasks=true&onlyFailed=true"
    expect(dialog.locator(".command")).to_contain_text(f"curl -X POST '{ADDRESS.url}{path}'")
    dialog.get_by_role("button", name="Execute").click()
    expect(dialog.get_by_role("status")).to_contain_text("Done.")
    sent = [body["arguments"] for _, body in process.posts if not body["preview"]]
    assert sent == [{"connector": "files", "include_tasks": True, "only_failed": True}]


def test_without_connect_the_view_says_how_to_name_it(
    process: FakePageProcess, open_page: OpenPage
) -> None:
    process.replies["/api/connect"] = lambda query, body: {"address": None, "version": None}
    tab = open_page(f"{process.address}#/connect")
    expect(tab.get_by_text("minikafka ui --connect")).to_be_visible()
