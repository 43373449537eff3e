"""Records over the real server of the page and brokers inside this process."""

from __future__ import annotations

import asyncio
import base64
import csv
import io
import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from minikafka.aio import Producer
from minikafka.page.dashboard.records import reading, records_api
from minikafka.testing.inside.cluster import InsideCluster
from tests.support.cluster.cluster_state import until
from tests.support.page_server import PageServer, page_server
from tests.support.registry_server import registry_server

pytestmark = pytest.mark.mission("GLASS-27")


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    with InsideCluster(2, {"auto.create.topics.enable": "true"}) as running:
        yield running


@pytest.fixture(scope="module")
def page(cluster: InsideCluster) -> Iterator[PageServer]:
    with page_server(cluster.client()[1]) as served:
        yield served


def read(page: PageServer, **words: Any) -> Any:
    reply = page.get(f"/api/records?{urlencode(words)}", X_Minikafka_Token=page.token)
    assert reply.status == 200, reply.json
    return reply.json


def write(page: PageServer, **body: Any) -> Any:
    reply = page.post(
        "/api/produce", body, Content_Type="application/json", X_Minikafka_Token=page.token
    )
    assert reply.status == 200, reply.json
    return reply.json


def next_words(found: Any) -> str:
    return ",".join(f"{partition}:{offset}" for partition, offset in found["next"].items())


def test_pages_of_records_have_each_record_once(cluster: InsideCluster, page: PageServer) -> None:
    cluster.create_topic("pages", partitions=3)
    for partition in range(3):
        write(page, topic="pages", partition=partition, value=f"of {partition}", count=40)
    seen: list[tuple[int, int]] = []
    first = found = read(page, topic="pages", limit=30)
    assert {row["partition"] for row in first["records"]} == {0, 1, 2}
    while True:
        assert len(found["records"]) <= 30
        seen += [(row["partition"], row["offset"]) for row in found["records"]]
        if not found["more"]:
            break
        found = read(page, topic="pages", limit=30, next=next_words(found))
    assert sorted(seen) == [(number, offset) for number in range(3) for offset in range(40)]
    assert found["next"] == {"0": 40, "1": 40, "2": 40}


def test_reading_begins_at_the_named_place(cluster: InsideCluster, page: PageServer) -> None:
    cluster.create_topic("begins", partitions=1)
    for number in range(10):
        write(page, topic="begins", value=str(number))
    whole = read(page, topic="begins")["records"]

    def values(**words: Any) -> list[str]:
        return [row["value"] for row in read(page, topic="begins", **words)["records"]]

    assert values(**{"from": "last:3"}) == ["9", "8", "7"]
    assert values(**{"from": "offset:8"}) == ["8", "9"]
    assert values(**{"from": "latest"}) == []
    assert values(**{"from": f"time:{whole[5]['timestamp']}"})[-5:] == ["5", "6", "7", "8", "9"]
    assert values(contains="4") == ["4"]
    at = whole[5]["timestamp"]
    early = values(until=at)
    assert early + values(**{"from": f"time:{at}"}) == [row["value"] for row in whole]
    assert values(**{"from": "last:100"}, until=at) == early[::-1]
    assert values(partition=0, limit=2) == ["0", "1"]


@pytest.mark.mission("GLASS-110")
def test_a_search_without_a_match_yet_says_how_far_it_is(
    cluster: InsideCluster, page: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("searched", partitions=2)
    for partition in (0, 1):
        write(page, topic="searched", partition=partition, value="hay", count=1_000)
    write(page, topic="searched", partition=1, key="k", value="A Needle", headers=[["h", "x"]])
    monkeypatch.setattr(reading, "MOST_LOOKED_AT", 400)
    words = {"topic": "searched", "contains": "needle", "limit": 1}
    found = read(page, **words)
    steps = [found]
    while found["more"]:
        assert not found["records"] or found["records"][0]["offset"] == 1_000
        found = read(page, **words, next=next_words(found))
        steps.append(found)
    done = [step["progress"]["done"] for step in steps]
    assert steps[0]["records"] == []
    assert len(steps) >= 3
    assert done == sorted(done)
    assert steps[-1]["progress"] == {"done": 2_001, "of": 2_001}
    rows = [row for step in steps for row in step["records"]]
    assert [(row["partition"], row["value"]) for row in rows] == [(1, "A Needle")]
    monkeypatch.undo()
    for more in ({"case": 1}, {"contains": "needles"}, {"header": "h=y"}, {"key": "other"}):
        assert read(page, **{**words, **more})["records"] == []
    for one in ({"key": "K"}, {"header": "h"}, {"header": "h=X"}, {"where": "size > 5"}):
        assert len(read(page, **{**words, **one})["records"]) == 1
    newest = {"topic": "searched", "from": "last:5", "contains": "needle"}
    last = read(page, **newest)
    values = [row["value"] for row in last["records"]]
    while last["more"]:
        before = ",".join(f"{partition}:{offset}" for partition, offset in last["older"].items())
        last = read(page, **newest, before=before)
        values += [row["value"] for row in last["records"]]
    assert values == ["A Needle"]
    assert last["progress"] == {"done": 2_001, "of": 2_001}


@pytest.mark.mission("GLASS-111")
def test_the_last_records_are_the_newest_of_all_partitions(
    cluster: InsideCluster, page: PageServer
) -> None:
    cluster.create_topic("rounds", partitions=20)
    for number in range(10):
        for partition in range(20):
            write(page, topic="rounds", partition=partition, value=f"{number}")
    found = read(page, topic="rounds", **{"from": "last:30"})
    assert found["order"] == "newest"
    rows, older = found["records"], found["older"]
    assert [row["value"] for row in rows] == ["9"] * 20 + ["8"] * 10
    times = [row["timestamp"] for row in rows]
    assert times == sorted(times, reverse=True)
    assert found["next"] == {str(number): 10 for number in range(20)}
    assert found["progress"] == {"done": 30, "of": 200}
    while older is not None:
        before = ",".join(f"{partition}:{offset}" for partition, offset in older.items())
        found = read(page, topic="rounds", before=before, **{"from": "last:70"})
        rows, older = rows + found["records"], found["older"]
    assert sorted((row["partition"], row["offset"]) for row in rows) == [
        (partition, offset) for partition in range(20) for offset in range(10)
    ]
    assert [row["value"] for row in rows] == [str(9 - number // 20) for number in range(200)]


@pytest.mark.mission("GLASS-112")
def test_a_record_may_be_as_large_as_its_topic_allows(
    cluster: InsideCluster, page: PageServer
) -> None:
    cluster.create_topic("large", partitions=1, settings={"max.message.bytes": "4000000"})
    written = write(page, topic="large", value="x" * 3_500_000)
    assert written == {"partition": 0, "offset": 0, "count": 1}
    (full,) = read(page, topic="large", full=1)["records"]
    assert full["value"] == "x" * 3_500_000
    token = {"Content_Type": "application/json", "X_Minikafka_Token": page.token}
    reply = page.post("/api/produce", {"topic": "large", "value": "x" * 4_100_000}, **token)
    assert reply.status == 502
    assert "MESSAGE_TOO_LARGE" in reply.json["error"]


@pytest.mark.mission("GLASS-113")
def test_a_csv_has_no_control_characters(cluster: InsideCluster, page: PageServer) -> None:
    cluster.create_topic("binary", partitions=1)
    key, value = "AAAAAAAAACo=", "AAECAwQFBgc="  # 42 as int64, the bytes 0 to 7
    body = {"key": key, "value": value, "headers": [["h", "AAE="]], "encoding": "base64"}
    write(page, topic="binary", partition=0, **body)
    (row,) = read(page, topic="binary")["records"]
    assert (row["key"], row["value_decoded"]["as"]) == ("\0" * 7 + "*", "hex")
    assert row["key_decoded"]["text"] == "00 00 00 00 00 00 00 2a  |.......*|"
    assert row["key_decoded"]["hint"] == {"as": "int64", "text": "42"}
    text = page.get("/api/export?topic=binary&format=csv&key_as=int64").body.decode()
    assert all(character.isprintable() for character in text.replace("\n", ""))
    (cells,) = csv.DictReader(io.StringIO(text, newline=""))
    assert (cells["key"], cells["key_encoding"]) == ("42", "int64")
    assert (cells["value"], cells["value_encoding"]) == ("0001020304050607", "hex")
    assert json.loads(cells["headers"]) == [["h", "0001", "hex"]]


@pytest.mark.mission("GLASS-116")
def test_records_are_decoded_and_searched_by_the_schemas_of_a_registry(
    cluster: InsideCluster,
) -> None:
    login = ("reader", "secret")
    cluster.create_topic("framed", partitions=1)
    schema = '{"type":"record","name":"R","fields":[{"name":"id","type":"long"}]}'
    with (
        registry_server(cluster.bootstrap, users=dict([login])) as registry,
        page_server(cluster.client()[1], registry=registry.url, registry_login=login) as page,
    ):
        basic = base64.b64encode(":".join(login).encode()).decode()
        path, headers = "/subjects/framed-value/versions", {"Authorization": f"Basic {basic}"}
        status, found = registry.send("POST", path, {"schema": schema}, **headers)
        assert status == 200
        for number in range(3):
            body = b"\0" + found["id"].to_bytes(4, "big") + bytes([2 * number])
            value = base64.b64encode(body).decode()
            write(page, topic="framed", key=None, value=value, encoding="base64")
        (row,) = read(page, topic="framed", where="$.id = 2")["records"]
        assert row["value_decoded"] == {
            "as": "schema",
            "text": '{"id":2}',
            "schema": {"id": found["id"], "subject": "framed-value", "version": 1, "type": "AVRO"},
            "error": None,
            "hint": None,
            "truncated": False,
        }
        token = {"X_Minikafka_Token": page.token}  # with a login reading needs it, too
        assert page.get("/api/decodings", **token).json["registry"] == registry.url
        path = "/api/export?topic=framed&format=csv&where=$.id>0"
        text = page.get(path, **token).body.decode()
        assert [row["value"] for row in csv.DictReader(io.StringIO(text))] == [
            '{"id":1}',
            '{"id":2}',
        ]


def test_a_record_is_written_as_it_was_read(cluster: InsideCluster, page: PageServer) -> None:
    cluster.create_topic("written", partitions=2)
    written = write(
        page,
        topic="written",
        partition=1,
        key="AP8=",
        value=None,
        headers=[["h", "AA=="], ["n", None]],
        encoding="base64",
    )
    assert written == {"partition": 1, "offset": 0, "count": 1}
    (row,) = read(page, topic="written")["records"]
    assert (row["key"], row["encoding"]) == ("AP8=", {"key": "base64", "value": "null"})
    assert (row["value"], row["headers"]) == (None, [["h", "\0"], ["n", None]])
    long = "x" * 100_000
    write(page, topic="written", partition=1, value=long)
    (_, cut) = read(page, topic="written")["records"]
    assert (len(cut["value"]), cut["value_size"], cut["truncated"]) == (65_536, 100_000, True)
    (full,) = read(page, topic="written", partition=1, full=1, **{"from": "offset:1"})["records"]
    assert (full["value"], full["truncated"]) == (long, False)


def test_a_tail_waits_for_the_next_record(cluster: InsideCluster, page: PageServer) -> None:
    cluster.create_topic("tail", partitions=2)
    write(page, topic="tail", partition=0, value="before")
    at_end = read(page, topic="tail", **{"from": "latest"})
    assert (at_end["records"], at_end["more"]) == ([], False)
    found: list[Any] = []
    waiting = threading.Thread(
        target=lambda: found.append(read(page, topic="tail", next=next_words(at_end), wait=20_000))
    )
    waiting.start()
    write(page, topic="tail", partition=1, value="after")
    waiting.join()
    assert [row["value"] for row in found[0]["records"]] == ["after"]
    assert found[0]["next"] == {"0": 1, "1": 1}


def test_aborted_and_open_transactions_are_shown_on_request(
    cluster: InsideCluster, page: PageServer
) -> None:
    cluster.create_topic("transacted", partitions=1)

    async def write_some() -> None:
        async with Producer(cluster.bootstrap, transactional_id="tx") as producer:
            await producer.init_transactions()
            for value in (b"committed", b"aborted"):
                producer.begin_transaction()
                await producer.send_and_wait("transacted", value)
                if value == b"aborted":
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()

    asyncio.run(write_some())

    def values(**words: Any) -> list[str]:
        found = read(page, topic="transacted", **words)
        assert not found["more"]
        assert found["next"] == {"0": 4}
        return [row["value"] for row in found["records"]]

    assert values() == ["committed"]
    assert values(uncommitted=1) == ["committed", "aborted"]


@pytest.mark.mission("GLASS-119")
def test_records_are_found_by_the_state_of_their_transaction(
    cluster: InsideCluster, page: PageServer
) -> None:
    cluster.create_topic("states", partitions=2)

    async def write_some() -> None:
        async with Producer(cluster.bootstrap, transactional_id="states") as producer:
            await producer.init_transactions()
            for number in range(12):
                producer.begin_transaction()
                for partition in (0, 1):
                    value = f"{number}".encode()
                    await producer.send_and_wait("states", value, partition=partition)
                if number == 11:
                    held.extend(read(page, topic="states", **words)["held"] for words in committed)
                    found.extend(values(state) for state in ("committed", "aborted", "open"))
                if number % 3 == 1:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()

    def values(state: str, **words: Any) -> list[int]:
        rows = read(page, topic="states", transaction=state, uncommitted=1, **words)["records"]
        return sorted({int(row["value"]) for row in rows})

    found: list[list[int]] = []
    held: list[int] = []
    committed: tuple[dict[str, Any], ...] = ({}, {"partition": 1}, {"uncommitted": 1})
    asyncio.run(write_some())
    assert held == [2, 1, 0]
    assert found == [[0, 2, 3, 5, 6, 8, 9], [1, 4, 7, 10], [11]]
    until(lambda: values("open") == [], "the markers are written")
    assert values("aborted", partition=1, limit=2) == [1, 4]
    last = read(page, topic="states", transaction="aborted", uncommitted=1, **{"from": "last:3"})
    assert sorted(row["value"] for row in last["records"]) == ["10", "10", "7"]
    wrong = page.get("/api/records?topic=states&transaction=aborted")
    assert (wrong.status, wrong.json["error"]) == (400, "transaction=aborted needs uncommitted=1.")


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_an_export_has_all_records(cluster: InsideCluster, page: PageServer, kind: str) -> None:
    topic = f"export-{kind}"
    cluster.create_topic(topic, partitions=2)
    for partition in (0, 1):
        write(page, topic=topic, partition=partition, value="a\nb", count=700)
    reply = page.get(f"/api/export?topic={topic}&format={kind}")
    assert reply.status == 200
    assert topic in reply.headers["content-disposition"]
    text = reply.body.decode()
    if kind == "json":
        rows = [json.loads(line) for line in text.splitlines()]
    else:
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert {row["value"] for row in rows} == {"a\nb"}
    places = sorted((int(row["partition"]), int(row["offset"])) for row in rows)
    assert places == [(number, offset) for number in (0, 1) for offset in range(700)]
    few = page.get(f"/api/export?topic={topic}&limit=5&from=last:9").body.decode()
    assert len(few.splitlines()) == 5


def test_partitions_without_a_leader_are_named(cluster: InsideCluster, page: PageServer) -> None:
    """Otherwise a search would say that nothing matches."""
    cluster.create_topic("half", partitions=2, replication_factor=1)
    for number in (0, 1):
        write(page, topic="half", partition=number, value=str(number))
    assert read(page, topic="half")["unread"] == []
    headers = {"X_Minikafka_Token": page.token}
    dead = cluster.leader("half", 1)
    cluster.kill_broker(dead)
    try:
        until(
            lambda: page.get("/api/records?topic=half", **headers).json.get("unread") == [1],
            "unread",
        )
        assert [row["value"] for row in read(page, topic="half")["records"]] == ["0"]
        assert read(page, topic="half", partition=0)["unread"] == []
        for path in ("/api/records?topic=half&partition=1", "/api/export?topic=half"):
            reply = page.get(path, **headers)
            assert (reply.status, "leader" in reply.json["error"]) == (503, True)
        assert page.get("/api/export?topic=half&partition=0", **headers).status == 200
    finally:
        cluster.start_broker(dead)


@pytest.mark.parametrize("path", ["records", "export"])
def test_one_reader_too_many_is_refused_before_the_first_record(
    cluster: InsideCluster, page: PageServer, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    topic = f"crowded-{path}"
    cluster.create_topic(topic)
    assert page.get(f"/api/{path}?topic={topic}").status == 200
    monkeypatch.setattr(records_api, "MOST_READERS", 0)
    reply = page.get(f"/api/{path}?topic={topic}")
    assert (reply.status, list(reply.json)) == (429, ["error"])


def test_wrong_requests_are_refused_and_create_no_topic(
    cluster: InsideCluster, page: PageServer
) -> None:
    cluster.create_topic("there", partitions=1)
    for path, status in (
        ("records", 400),
        ("records?topic=missing", 404),
        ("records?topic=there&partition=7", 404),
        ("records?topic=there&from=nowhere", 400),
        ("records?topic=there&where=$.a+=", 400),
        ("records?topic=there&key_as=morse", 400),
        ("export?topic=missing", 404),
        ("export?topic=there&format=xml", 400),
    ):
        reply = page.get(f"/api/{path}")
        assert (reply.status, list(reply.json)) == (status, ["error"]), path
    good = {"Content_Type": "application/json", "X_Minikafka_Token": page.token}
    body = {"topic": "missing", "value": "x"}
    assert page.post("/api/produce", body, **good).status == 404
    assert page.post("/api/produce", {"topic": "there", "partition": 5}, **good).status == 404
    assert page.post("/api/produce", {"topic": "there", "value": 1}, **good).status == 400
    names = {row["name"] for row in page.get("/api/topics").json["topics"]}
    assert "missing" not in names


@pytest.mark.mission("GLASS-23")
def test_only_the_holder_of_the_token_writes(cluster: InsideCluster, page: PageServer) -> None:
    cluster.create_topic("guarded", partitions=1)
    body = {"topic": "guarded", "value": "x"}
    token = {"X_Minikafka_Token": page.token, "Content_Type": "application/json"}
    assert page.post("/api/produce", body, Content_Type="application/json").status == 403
    assert page.post("/api/produce", body, **token, Origin="http://evil.example").status == 403
    assert page.post("/api/produce", body, **token, Host="evil.example").status == 403
    with page_server(cluster.client()[1], read_only=True) as reading:
        token["X_Minikafka_Token"] = reading.token
        assert reading.post("/api/produce", body, **token).status == 403
        assert read(reading, topic="guarded") == read(page, topic="guarded")
    assert read(page, topic="guarded")["next"] == {"0": 0}
