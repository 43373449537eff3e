"""Kafka Connect on the page: over the real server, and a worker that is made up."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minikafka.cli.main import main
from minikafka.client.config import ClientConfig
from minikafka.client.rest import RestAddress
from minikafka.page.dashboard.access.roles import Role, needed_for_act
from minikafka.page.dashboard.acting.act_fields import ActError
from minikafka.page.dashboard.acting.connect_acts import (
    CONNECT_ACTS,
    connect_request,
    shown_request,
)
from tests.support.fake_connect import TRACE, WORKER, FakeConnect
from tests.support.page_server import PageReply, PageServer, page_server

pytestmark = pytest.mark.mission("GLASS-161")
NO_CLUSTER = ClientConfig(bootstrap_servers="127.0.0.1:9")
LOGIN = "Basic " + base64.b64encode(b"ann:s cret").decode()


@pytest.fixture
def connect() -> Iterator[FakeConnect]:
    with FakeConnect().running() as running:
        yield running


@pytest.fixture
def page(connect: FakeConnect, tmp_path: Path) -> Iterator[PageServer]:
    with page_server(
        NO_CLUSTER,
        connect=connect.url,
        connect_login=("ann", "s cret"),
        audit_log=str(tmp_path / "audit"),
    ) as served:
        yield served


def read(page: PageServer, path: str) -> PageReply:
    return page.get(path, X_Minikafka_Token=page.token)


def act(page: PageServer, name: str, **body: Any) -> PageReply:
    return page.post(
        f"/api/do/{name}", body, Content_Type="application/json", X_Minikafka_Token=page.token
    )


def test_a_login_in_the_address_is_one_that_others_do_not_have(connect: FakeConnect) -> None:
    address = connect.url.replace("://", "://ann:s%20cret@")
    with page_server(NO_CLUSTER, connect=address) as page:
        assert page.get("/api/connectors").status == 403
        assert read(page, "/api/connect").json["address"] == connect.url


def test_connectors_are_listed_with_what_failed(page: PageServer) -> None:
    assert page.get("/api/connectors").status == 403  # other users of this machine have no login
    assert read(page, "/api/connect").json["version"] == "3.9.1"
    found = read(page, "/api/connectors?sort=type").json
    sink = {
        "connector": "a/b c",
        "type": "sink",
        "state": "RUNNING",
        "worker": WORKER,
        "tasks": 2,
        "failed": 1,
        "topics": ["x", "y"],  # those configured, since Connect does not tell those used
    }
    assert found["connectors"][0] == sink
    assert found["connectors"][1]["topics"] == ["lines"]
    assert [found[key] for key in ("matching", "total", "more")] == [2, 2, False]
    assert read(page, "/api/connectors?sick=1").json["connectors"] == [sink]
    assert read(page, "/api/connectors?search=FIL&limit=1").json["matching"] == 1


def test_a_connector_has_its_tasks_and_no_secrets(page: PageServer) -> None:
    found = read(page, "/api/connectors/a%2Fb%20c").json
    assert [(part["task"], part["state"], part["trace"]) for part in found["parts"]] == [
        (0, "FAILED", TRACE),
        (1, "RUNNING", ""),
    ]
    settings = {row["name"]: row["value"] for row in found["settings"]}
    assert settings == {"topics": "x, y", "url": "********"}
    assert "geheim" not in read(page, "/api/connectors/files").body.decode()


def test_acts_are_sent_and_logged(page: PageServer, connect: FakeConnect, tmp_path: Path) -> None:
    failed = {"connector": "a/b c", "include_tasks": True, "only_failed": True}
    shown = f"curl -X POST --user ann '{connect.url}/connectors/a%2Fb%20c/restart?"
    preview = act(page, "connect-restart", arguments=failed, preview=True).json
    assert preview == {"command": f"{shown}includeTasks=true&onlyFailed=true'"}
    assert connect.changes == []
    assert act(page, "connect-restart", arguments=failed).json["status"] == 0
    for name, arguments in {
        "connect-restart-task": {"connector": "files", "task": 1},
        "connect-pause": {"connector": "files"},
        "connect-resume": {"connector": "files"},
        "connect-stop": {"connector": "files"},
    }.items():
        assert act(page, name, arguments=arguments).json["errors"] == ""
    assert connect.changes == [
        ("POST", "/connectors/a%2Fb%20c/restart?includeTasks=true&onlyFailed=true", LOGIN),
        ("POST", "/connectors/files/tasks/1/restart", LOGIN),
        ("PUT", "/connectors/files/pause", LOGIN),
        ("PUT", "/connectors/files/resume", LOGIN),
        ("PUT", "/connectors/files/stop", LOGIN),
    ]
    text = (tmp_path / "audit").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    assert [(row["act"], row["result"]) for row in rows[:2]] == [
        ("connect-restart", "begun"),
        ("connect-restart", "done"),
    ]
    assert (len(rows), "cret" in text) == (10, False)
    roles = {row["name"]: row["role"] for row in read(page, "/api/acts").json}
    assert {roles[name] for name in CONNECT_ACTS} == {"operate"}


def test_refusals_are_one_sentence(page: PageServer, connect: FakeConnect) -> None:
    missing = read(page, "/api/connectors/gone")
    assert (missing.status, missing.json["error"]) == (
        404,
        "Kafka Connect refused it: Connector gone not found",
    )
    connect.rebalances = True
    sentence = "the workers may be rebalancing, so try again soon: Cannot complete request"
    busy = read(page, "/api/connectors")
    assert (busy.status, sentence in busy.json["error"]) == (502, True)
    refused = act(page, "connect-pause", arguments={"connector": "files"}).json
    assert (refused["status"], sentence in refused["errors"]) == (1, True)
    connect.rebalances = False
    connect.connectors = {"odd": {"info": {"config": 5}}}
    assert "no description of odd" in read(page, "/api/connectors").json["error"]
    assert act(page, "connect-pause", arguments={}, preview=True).json["problem"]
    assert act(page, "connect-pause", arguments={"connector": "x"}, dry_run=True).status == 400


def test_without_connect_there_are_neither_connectors_nor_acts() -> None:
    with page_server(NO_CLUSTER) as without:
        assert without.get("/api/connect").json == {"address": None, "version": None}
        assert without.get("/api/connectors").status == 404
        assert act(without, "connect-pause", arguments={"connector": "x"}).status == 404
    with page_server(NO_CLUSTER, connect="http://127.0.0.1:9") as away:
        reply = away.get("/api/connectors")
        assert reply.status == 502
        assert "no response of Kafka Connect http://127.0.0.1:9" in reply.json["error"]
        undone = act(away, "connect-pause", arguments={"connector": "x"}).json
        assert (undone["status"], "It is unknown" in undone["errors"]) == (1, True)


def test_arguments_are_checked() -> None:
    address = RestAddress.parse("http://h:8083/base/")
    sent = connect_request("connect-restart", {"connector": "a?b"}, False)
    assert shown_request(sent, address) == (
        "curl -X POST http://h:8083/base/connectors/a%3Fb/restart"
    )
    with pytest.raises(ActError, match="task is missing"):
        connect_request("connect-restart-task", {"connector": "a"}, False)
    assert needed_for_act("connect-stop", {}) is Role.OPERATE


def test_the_option_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "some"
    file.write_text("bootstrap.servers=127.0.0.1:9\n")
    ui = ("ui", "--bootstrap-server", "127.0.0.1:9")
    for words, sentence in {
        (
            "ui",
            "--cluster",
            f"a={file}",
            "--connect",
            "http://h:1",
        ): "--connect: not with --cluster",
        (*ui, "--connect-users", str(file)): "--connect-users: only with --connect",
        (*ui, "--connect", "h:8083"): "--connect h:8083: it is no address",
        ("ui", "--recording", str(file), "--connect", "http://h:1"): "not with --recording",
    }.items():
        assert main(list(words)) != 0
        assert sentence in capsys.readouterr().err
