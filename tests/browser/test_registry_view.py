"""The view of a schema registry, and long acts that a reload finds again, in a real browser."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from minikafka.client.rest import RestAddress
from minikafka.page.dashboard.acting.act_fields import ActError
from minikafka.page.dashboard.acting.acts import ACTS, shown_command
from minikafka.page.dashboard.acting.schema_acts import (
    SCHEMA_ACTS,
    schema_act_facts,
    schema_command,
)
from tests.browser.data_fixture import BOOTSTRAP, cluster, now, state, topic_use
from tests.browser.fake_page_process import FakePageProcess, Query, Refusal
from tests.browser.test_data_views import serious
from tests.support.browser import OpenPage

ADDRESS = RestAddress.parse("http://127.0.0.1:8081")
USE = {"strategy": "TopicNameStrategy", "topic": "orders", "part": "value", "exists": True}
TEXTS = {
    version: json.dumps(
        {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, *more]}
    )
    for version, more in {
        "1": (),
        "2": ({"name": "note", "type": ["null", "string"], "default": None},),
    }.items()
}


def act(name: str) -> Any:
    def reply(_: Query, body: Any) -> dict[str, Any]:
        try:
            found = schema_command(name, body["arguments"], ADDRESS, body["dry_run"])
        except ActError as error:
            raise Refusal(str(error)) from None
        line = {"command": shown_command(found)}
        if body["preview"]:
            return line
        text = "The schema can be the next version of orders-value (BACKWARD)."
        return {**line, "status": 0, "output": text, "errors": ""}

    return reply


@pytest.fixture
def process() -> Iterator[FakePageProcess]:
    process = cluster()
    row = {"subject": "orders-value", "version": 2, "id": 7, "type": "AVRO", "use": USE}
    process.replies |= {
        "/api/acts": lambda query, body: [
            *(one.facts(BOOTSTRAP) for one in ACTS.values()),
            *schema_act_facts(ADDRESS),
        ],
        "/api/registry": lambda query, body: {"address": ADDRESS.url, "level": "BACKWARD"},
        "/api/subjects": lambda query, body: {
            "subjects": [row],
            "matching": 1,
            "total": 1,
            "more": False,
        },
        "/api/subjects/orders-value": lambda query, body: {
            "subject": "orders-value",
            "level": "FULL",
            "older": 0,
            "use": USE,
            "versions": [
                {"version": version, "id": 5 + version, "type": "AVRO"} for version in (2, 1)
            ],
        },
        "/api/schema": lambda query, body: {
            "subject": query["subject"],
            "version": int(query["version"]),
            "id": 7,
            "type": "AVRO",
            "schema": TEXTS[query["version"]],
            "references": [],
            "referenced_by": [],
        },
        **{f"/api/do/{name}": act(name) for name in SCHEMA_ACTS},
    }
    with process.running() as running:
        yield running


def opened(open_page: OpenPage, process: FakePageProcess, view: str, **options: Any) -> Page:
    return open_page(f"{process.address}#/{view}", errors=("status of 400",), **options)


@pytest.mark.mission("GLASS-155")
def test_versions_are_compared_and_the_address_says_which(
    process: FakePageProcess, open_page: OpenPage
) -> None:
    tab = opened(open_page, process, "cluster")
    tab.keyboard.press("s")
    tab.get_by_role("link", name="orders-value").click()
    schema = tab.get_by_role("region", name="Schema")
    expect(schema.locator("pre")).to_contain_text('"name": "note"')
    schema.get_by_label("compare with").select_option("1")
    expect(schema.get_by_role("status")).to_contain_text("From version 1 to version 2")
    expect(schema.locator(".diff-new").first).to_contain_text("+ ")
    assert tab.url.endswith("#/registry/orders-value?version=2&against=1")
    tab.set_viewport_size({"width": 1280, "height": 160})
    tab.reload()
    expect(schema.locator(".diff-new").first).to_be_visible()
    box = schema.locator("pre")
    assert box.evaluate("box => box.scrollHeight > box.clientHeight + 60")
    # What differs is seen, though the schema is longer than its box.
    tab.wait_for_function("""() => {
        const box = document.querySelector("pre.diff");
        const first = box?.querySelector(".diff-new")?.getBoundingClientRect();
        const { top, bottom } = box?.getBoundingClientRect() ?? {};
        return first && first.top >= top && first.bottom <= bottom;
    }""")
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.get_by_role("link", name="orders", exact=True).click()
    tab.wait_for_url("**/#/topics/orders")


@pytest.mark.mission("GLASS-155")
def test_a_schema_is_checked_before_it_is_registered(
    process: FakePageProcess, open_page: OpenPage
) -> None:
    tab = opened(open_page, process, "registry/orders-value")
    tab.get_by_role("button", name="Check or register").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog.locator("textarea[name=schema]")).to_have_value(TEXT_SHOWN)
    execute = dialog.get_by_role("button", name="Execute")
    expect(execute).to_be_disabled()
    expect(dialog.locator(".command")).to_contain_text("minikafka schemas check --registry")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("status")).to_contain_text("can be the next version")
    expect(dialog.locator(".command")).to_contain_text("minikafka schemas register --registry")
    execute.click()
    expect(dialog.get_by_role("status")).to_contain_text("Done.")
    sent = [body for path, body in process.posts if not body["preview"]]
    assert [body["dry_run"] for body in sent] == [True, False]


TEXT_SHOWN = json.dumps(json.loads(TEXTS["2"]), indent=2)


@pytest.mark.mission("GLASS-155")
def test_without_a_registry_the_view_says_how_to_name_one(
    process: FakePageProcess, open_page: OpenPage
) -> None:
    process.replies["/api/registry"] = lambda query, body: {"address": None, "level": None}
    tab = opened(open_page, process, "registry")
    expect(tab.get_by_text("minikafka ui --registry")).to_be_visible()


@pytest.mark.mission("GLASS-164")
def test_a_topic_leads_to_its_subjects(process: FakePageProcess, open_page: OpenPage) -> None:
    tab = opened(open_page, process, "topics/orders")
    expect(tab.get_by_role("heading", name="ACLs")).to_be_visible()
    expect(tab.get_by_role("link", name="Schemas")).to_have_count(0)
    process.replies["/api/topic-use/orders"] = lambda query, body: {
        **topic_use(),
        "has_registry": True,
    }
    tab.reload()
    tab.get_by_role("link", name="Schemas").click()
    expect(tab.get_by_role("link", name="orders-value")).to_be_visible()
    assert tab.url.endswith("#/registry?search=orders-")


@pytest.mark.mission("GLASS-155")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["registry", "registry/orders-value?version=2&against=1"])
def test_the_view_is_for_everybody(
    process: FakePageProcess, open_page: OpenPage, view: str, scheme: str
) -> None:
    tab = opened(open_page, process, view, color_scheme=scheme)
    expect(tab.locator("main .card").first).to_be_visible()
    if "/" in view:
        expect(tab.locator(".diff-new").first).to_be_visible()
    assert serious(tab) == []
    tab.set_viewport_size({"width": 320, "height": 640})
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a\nb\nc", "a\nb\nc", "  a|  b|  c"),
        ("a\nb\nc", "a\nx\nc", "  a|- b|+ x|  c"),
        ("a\nb\nc\nd", "b\nd\ne", "- a|  b|- c|  d|+ e"),
        ("", "a", "- |+ a"),
    ],
)
def test_lines_that_two_texts_share_are_kept(
    module_page: Page, before: str, after: str, expected: str
) -> None:
    found = module_page.evaluate(
        """async ([before, after]) => {
            const { diffLines } = await import("/static/parts/line_diff.js");
            const sign = { same: " ", gone: "-", new: "+" };
            const lines = diffLines(before, after);
            return lines.map(({ kind, text }) => `${sign[kind]} ${text}`).join("|");
        }""",
        [before, after],
    )
    assert found == expected


@pytest.mark.mission("GLASS-156")
def test_a_reload_finds_an_act_that_runs(process: FakePageProcess, open_page: OpenPage) -> None:
    began, gate = threading.Event(), threading.Event()
    run = {
        "id": 3,
        "name": "schemas-level",
        "title": "Set a compatibility level",
        "command": "minikafka schemas level",
        "dry_run": False,
        "begun_ms": now() - 5000,
        "ended_ms": None,
        "status": None,
        "errors": "",
    }

    def slow(_: Query, body: Any) -> dict[str, Any]:
        if not body["preview"]:
            began.set()
            gate.wait(20)
        return {"command": "minikafka schemas level", "status": 0, "output": "", "errors": ""}

    process.replies |= {
        "/api/do/schemas-level": slow,
        "/api/runs": lambda query, body: [run],
        "/api/runs/3": lambda query, body: {**run, "output": "BACKWARD\n"},
    }
    tab = opened(open_page, process, "registry/orders-value")
    tab.get_by_role("button", name="Compatibility…").click()
    tab.get_by_role("dialog").get_by_role("button", name="Execute").click()
    assert began.wait(20)
    tab.reload()
    found = tab.get_by_role("region", name="An act of before")
    expect(found.get_by_role("status")).to_contain_text("Set a compatibility level is running for")
    assert serious(tab) == []
    run |= {"ended_ms": now(), "status": 0}
    expect(found.get_by_role("status")).to_contain_text("is done.")
    found.get_by_text("Command and output").click()
    expect(found.get_by_text("BACKWARD")).to_be_visible()
    found.get_by_role("button", name="Dismiss").click()
    expect(found).to_have_count(0)
    gate.set()
    tab.reload()
    expect(tab.get_by_role("heading", name="orders-value")).to_be_visible()
    expect(found).to_have_count(0)


@pytest.mark.mission("GLASS-157")
def test_moves_show_their_progress_and_time_to_go(
    process: FakePageProcess, open_page: OpenPage
) -> None:
    move = {"replicas": [1, 2, 3], "adding": [3], "removing": [1]}
    process.messages.append(state(None, ("reassignment", "orders-0", move)))
    row = {
        "topic": "orders",
        "partition": 0,
        "adding": [3],
        "removing": [1],
        "copied": 256 * 1024,
        "total": 1024 * 1024,
        "percent": 25,
        "bytes_per_s": 8 * 1024,
        "seconds_left": 96,
    }
    process.replies["/api/moves"] = lambda query, body: {"moves": [row], "total": 1}
    for view in ("topics", "topics/orders"):
        tab = opened(open_page, process, view)
        moves = tab.get_by_role("region", name="Moves")
        expect(moves).to_contain_text("25%, 256 KiB of 1 MiB")
        expect(moves).to_contain_text("1 min 36 s")
    assert serious(tab) == []
