"""The schema registry on the page: over the real server, a registry and a broker."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from minikafka.cli.main import main
from minikafka.client.rest import RestAddress
from minikafka.client.schema_registry import SchemaVersion
from minikafka.page.dashboard.acting.act_fields import ActError
from minikafka.page.dashboard.acting.acts import shown_command
from minikafka.page.dashboard.acting.schema_acts import schema_command
from minikafka.page.dashboard.schemas.subject_names import SubjectUse, record_name, subject_use
from minikafka.testing.inside.cluster import InsideCluster
from tests.support.page_server import PageReply, PageServer, page_server
from tests.support.registry_server import RegistryServer, registry_server

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "long"}],
    }
)
WITH_NOTE = ORDER.replace("}]", '}, {"name": "note", "type": ["null", "string"], "default": null}]')
OTHER_TYPE = ORDER.replace('"long"', '"boolean"')
LOGIN = "ann:s%20cret"


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    with InsideCluster(1) as cluster:
        cluster.create_topic("orders", partitions=1)
        yield cluster


@pytest.fixture(scope="module")
def registry(cluster: InsideCluster) -> Iterator[RegistryServer]:
    with registry_server(cluster.bootstrap, users={"ann": "s cret"}) as served:
        yield served


@pytest.fixture(scope="module")
def page(cluster: InsideCluster, registry: RegistryServer) -> Iterator[PageServer]:
    login = ("ann", "s cret")
    with page_server(cluster.client()[1], registry=registry.url, registry_login=login) as served:
        yield served


def act(page: PageServer, name: str, dry_run: bool = False, **arguments: Any) -> Any:
    body = {"arguments": arguments, "dry_run": dry_run}
    reply = page.post(
        f"/api/do/{name}", body, Content_Type="application/json", X_Minikafka_Token=page.token
    )
    assert reply.status == 200, reply.json
    return reply.json


def read(page: PageServer, path: str) -> PageReply:
    return page.get(path, X_Minikafka_Token=page.token)


@pytest.mark.mission("GLASS-153")
def test_a_schema_is_checked_registered_and_read(page: PageServer) -> None:
    given: dict[str, Any] = {"subject": "orders-value", "type": "AVRO"}
    first = act(page, "schemas-register", True, schema=ORDER, **given)
    assert (first["status"], first["errors"]) == (0, "")
    assert "this would be the first" in first["output"]
    assert read(page, "/api/subjects").json["total"] == 0  # a check registers nothing
    for text in (ORDER, WITH_NOTE):
        assert act(page, "schemas-register", schema=text, **given)["status"] == 0
    refused = act(page, "schemas-register", True, schema=OTHER_TYPE, **given)
    assert refused["status"] == 1
    assert "cannot be the next version" in refused["output"]
    forced = act(page, "schemas-register", schema=OTHER_TYPE, **given)
    assert forced["status"] == 1
    assert "incompatible" in forced["errors"]

    assert read(page, "/api/topic-use/orders").json["has_registry"] is True
    listed = read(page, "/api/subjects?search=ORD").json
    use = {"strategy": "TopicNameStrategy", "topic": "orders", "part": "value", "exists": True}
    row = {"subject": "orders-value", "version": 2, "id": 2, "type": "AVRO", "use": use}
    assert listed == {"subjects": [row], "matching": 1, "total": 1, "more": False}
    found = read(page, "/api/subjects/orders-value").json
    assert [each["version"] for each in found["versions"]] == [2, 1]
    assert (found["level"], found["use"], found["older"]) == ("BACKWARD", use, 0)
    schema = read(page, "/api/schema?subject=orders-value&version=1").json
    assert json.loads(schema["schema"]) == json.loads(ORDER)
    act(page, "schemas-level", subject="orders-value", level="NONE")
    assert read(page, "/api/subjects/orders-value").json["level"] == "NONE"
    assert read(page, "/api/registry").json["level"] == "BACKWARD"


@pytest.mark.mission("GLASS-153")
def test_the_login_is_in_no_response_and_no_command(page: PageServer) -> None:
    without_token = page.get("/api/subjects")
    assert without_token.status == 403  # other users of this machine have no login
    shown = [read(page, path).body.decode() for path in ("/api/registry", "/api/acts")]
    shown.append(json.dumps(act(page, "schemas-level", level="BACKWARD")))
    assert not any("cret" in text for text in shown)
    found = schema_command(
        "schemas-level", {"level": "FULL"}, RestAddress.parse(f"http://{LOGIN}@h:8081"), False
    )
    assert found.secrets == {"MINIKAFKA_REGISTRY_LOGIN": "ann:s cret"}
    assert not any("cret" in word for word in found.words)
    assert shown_command(found).startswith("MINIKAFKA_REGISTRY_LOGIN=******** minikafka schemas")


@pytest.mark.mission("GLASS-153")
def test_what_is_missing_is_said(page: PageServer, cluster: InsideCluster) -> None:
    missing = read(page, "/api/subjects/nothing-value")
    assert (missing.status, "not found" in missing.json["error"]) == (404, True)
    assert read(page, "/api/schema?subject=orders-value&version=x").status == 400
    with page_server(cluster.client()[1], registry="http://127.0.0.1:9") as other:
        away = other.get("/api/subjects")
        assert away.status == 502
        assert away.json["error"].startswith("There is no response of the registry http://")
    with page_server(cluster.client()[1]) as without:
        assert without.get("/api/registry").json == {"address": None, "level": None}
        assert without.get("/api/subjects").status == 404
        assert without.post("/api/do/schemas-level", {}, Content_Type="application/json").status


@pytest.mark.mission("GLASS-154")
def test_the_verb_has_the_registry_too(
    registry: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIKAFKA_REGISTRY_LOGIN", "ann:s cret")
    file = tmp_path / "schema.avsc"
    file.write_text(ORDER)

    def run(*words: str) -> tuple[int, str]:
        with redirect_stdout(io.StringIO()) as shown:
            status = main(["schemas", words[0], "--registry", registry.url, *words[1:]])
        return status, shown.getvalue()

    offered = ("--subject", "a/b:c-key", "--schema-file", str(file))
    assert run("register", *offered)[0] == 0
    assert run("check", *offered)[0] == 0
    assert "a/b:c-key\n" in run("list")[1]
    assert run("describe", "--subject", "a/b:c-key")[1].splitlines()[1].split("\t")[2] == "AVRO"
    text = run("describe", "--subject", "a/b:c-key", "--version", "latest")[1]
    assert json.loads(text) == json.loads(ORDER)
    assert run("level", "--subject", "a/b:c-key", "--set", "FULL")[1] == "FULL\n"
    file.write_text(OTHER_TYPE)
    assert run("check", *offered)[0] == 1
    assert run("delete", "--subject", "a/b:c-key")[0] == 0
    assert run("describe", "--subject", "a/b:c-key")[0] == 1
    monkeypatch.setenv("MINIKAFKA_REGISTRY_LOGIN", "ann:wrong")
    assert run("list")[0] == 1


@pytest.mark.mission("GLASS-153")
@pytest.mark.parametrize(
    ("subject", "kind", "text", "expected"),
    [
        ("orders-value", "AVRO", ORDER, SubjectUse("TopicNameStrategy", "orders", "value", True)),
        ("gone-key", "AVRO", ORDER, SubjectUse("TopicNameStrategy", "gone", "key", False)),
        (":.eu:orders-key", "AVRO", ORDER, SubjectUse("TopicNameStrategy", "orders", "key", True)),
        ("shop.Order", "AVRO", ORDER, SubjectUse("RecordNameStrategy")),
        (
            "orders-shop.Order",
            "AVRO",
            ORDER,
            SubjectUse("TopicRecordNameStrategy", "orders", None, True),
        ),
        ("x", "AVRO", "not JSON", None),
        ("-value", "AVRO", '"string"', None),
        (
            "shop.v1.Order",
            "PROTOBUF",
            'syntax = "proto3";\npackage shop.v1;\nmessage Order {}',
            SubjectUse("RecordNameStrategy"),
        ),
        ("Order", "JSON", '{"title": "Order"}', SubjectUse("RecordNameStrategy")),
    ],
)
def test_a_subject_tells_its_topic(
    subject: str, kind: str, text: str, expected: SubjectUse | None
) -> None:
    schema = SchemaVersion(subject, 1, 1, kind, text)
    assert subject_use(subject, {"orders"}, schema) == expected


def test_a_record_without_a_name_has_none() -> None:
    assert record_name(SchemaVersion("s", 1, 1, "AVRO", "[" * 100_000)) is None
    assert record_name(SchemaVersion("s", 1, 1, "JSON", "[1]")) is None


@pytest.mark.mission("GLASS-153")
def test_arguments_of_acts_are_checked() -> None:
    address = RestAddress.parse("http://localhost:8081/")
    with pytest.raises(ActError, match="schema is missing"):
        schema_command("schemas-register", {"subject": "a", "type": "AVRO"}, address, True)
    with pytest.raises(ActError, match="begins with -"):
        schema_command("schemas-delete", {"subject": "--force"}, address, False)
    with pytest.raises(ActError, match="no dry run"):
        schema_command("schemas-delete", {"subject": "a"}, address, True)
    with pytest.raises(ValueError, match="no address"):
        RestAddress.parse("localhost:8081")
