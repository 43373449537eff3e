"""The page's process over a cluster inside this one: what it serves, and to whom."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minikafka.cli.processes import ui
from minikafka.client import OffsetAndMetadata, Producer
from minikafka.client.config import ClientConfig
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.page.dashboard.context import PageOptions
from minikafka.page.dashboard.serving import PageSubject, serve_page
from minikafka.testing.inside.cluster import InsideCluster
from minikafka.world.real.asgi_server import bind
from minikafka.world.real.world import real_world
from tests.support.page_server import PageServer, page_server

TP = TopicPartition("orders", 0)
COUNT = 7


@pytest.fixture(scope="module")
def cluster() -> Iterator[InsideCluster]:
    with InsideCluster(1, debug_ports=[0]) as cluster:
        cluster.create_topic(TP.topic, 2)
        cluster.call(fill(cluster))
        yield cluster


async def fill(cluster: InsideCluster) -> None:
    async with Producer(*cluster.client()) as producer:
        for _ in range(COUNT):
            await producer.send_and_wait(TP.topic, b"value", partition=TP.partition)
    async with cluster.admin() as admin:
        await admin.alter_group_offsets("billing", {TP: OffsetAndMetadata(4, "note")})


def config(cluster: InsideCluster) -> ClientConfig:
    return ClientConfig(bootstrap_servers=cluster.bootstrap, client_id="page")


@pytest.fixture(scope="module")
def page(cluster: InsideCluster) -> Iterator[PageServer]:
    with page_server(config(cluster)) as page:
        yield page


def states(messages: list[dict[str, Any]]) -> dict[tuple[Any, str, str], Any]:
    return {
        (message["broker"], row["kind"], row["name"]): row["facts"]
        for message in messages
        if message["type"] == "state"
        for row in message["changed"]
    }


@pytest.mark.mission("GLASS-10", "GLASS-12")
def test_the_snapshot_has_the_cluster_and_the_inside_of_brokers(page: PageServer) -> None:
    messages = page.get("/api/snapshot").json
    assert messages[0]["type"] == "hello"
    assert (messages[0]["minikafka"], messages[0]["live"]) == (True, True)
    found = states(messages)
    assert found[None, "cluster", ""]["topics"] >= 1
    assert found[None, "node", "1"]["version"].startswith("minikafka ")
    assert found[None, "topic", TP.topic]["partitions"][0]["high_watermark"] == COUNT
    assert found[None, "consumer_group", "billing"]["lag"] == COUNT - 4
    assert found[1, "reachable", ""] == {"debug": True}
    assert found[1, "partition", str(TP)]["log_end_offset"] == COUNT
    assert any(message["type"] == "event" for message in messages)


@pytest.mark.mission("GLASS-10")
def test_a_stream_continues_after_the_last_message_that_was_read(
    page: PageServer, cluster: InsideCluster
) -> None:
    with page.stream() as events:
        last_id = next(number for number, _ in events if number)
    cluster.create_topic("later")
    with page.stream(last_id) as events:
        for _, message in events:
            assert message["type"] != "hello"
            if (None, "topic", "later") in states([message]):
                break
    with page.stream("another-process-1") as events:
        assert next(events)[1]["type"] == "hello"


@pytest.mark.mission("GLASS-15")
def test_a_list_of_topics_costs_one_request(cluster: InsideCluster) -> None:
    for number in range(40):
        cluster.create_topic(f"many-{number:02}")
    with page_server(config(cluster)) as page:
        assert page.get("/api/topics?limit=1").status == 200  # connected
        before = len(cluster.requests(client_id="page"))
        listed = page.get("/api/topics?search=MANY&limit=30").json
        assert [row["name"] for row in listed["topics"]] == [f"many-{n:02}" for n in range(30)]
        assert (listed["matching"], listed["more"]) == (40, True)
        assert listed["total"] > 40
        rest = page.get("/api/topics?search=many&after=many-29").json
        assert [row["name"] for row in rest["topics"]] == [f"many-{n:02}" for n in range(30, 40)]
        assert rest["more"] is False
        assert len(cluster.requests(client_id="page")) - before <= 1


def test_a_topic_has_its_configuration_and_is_shown_from_then_on(
    page: PageServer, cluster: InsideCluster
) -> None:
    cluster.create_topic("zz", 1, settings={"cleanup.policy": "compact"})
    topic = page.get("/api/topics/zz").json
    (policy,) = [row for row in topic["configs"] if row["name"] == "cleanup.policy"]
    assert (policy["value"], policy["source"]) == ("compact", "DYNAMIC_TOPIC_CONFIG")
    missing = page.get("/api/topics/absent")
    assert (missing.status, missing.json) == (404, {"error": "There is no topic absent."})


@pytest.mark.mission("GLASS-15")
def test_a_group_has_exact_offsets(page: PageServer) -> None:
    listed = page.get("/api/groups").json["groups"]
    assert [(row["group"], row["coordinator"]) for row in listed] == [("billing", 1)]
    group = page.get("/api/groups/billing").json
    timed = ("lag_ms", "lag_exact")  # unless nobody has read the page yet
    offsets = [{k: v for k, v in row.items() if k not in timed} for row in group["offsets"]]
    assert offsets == [
        {
            "topic": TP.topic,
            "partition": TP.partition,
            "committed": 4,
            "log_end_offset": COUNT,
            "lag": COUNT - 4,
            "metadata": "note",
        }
    ]
    assert page.get("/api/groups/absent").status == 404


@pytest.mark.mission("GLASS-16")
def test_lag_is_shown_as_kafka_exporter_does(page: PageServer) -> None:
    text = page.get("/metrics").body.decode()
    assert (
        f'kafka_consumergroup_lag{{consumergroup="billing",topic="{TP.topic}",partition="0"}} 3\n'
        in text
    )
    assert "kafka_brokers 1\n" in text


@pytest.mark.mission("GLASS-14")
def test_a_change_needs_the_token_and_the_origin_of_the_page(
    page: PageServer, cluster: InsideCluster
) -> None:
    own = {"X-Minikafka-Token": page.token}
    assert page.post("/api/do/nothing", {}).status == 403
    cookie = f"minikafka_token_{page.port}={page.token}"
    assert page.post("/api/do/nothing", {}, Cookie=cookie).status != 403
    assert page.post("/api/do/nothing", {}, **own).status != 403
    assert page.post("/api/do/nothing", {}, **own, Origin="http://evil.example").status == 403
    assert page.get("/api/snapshot", Host="evil.example").status == 403
    with page_server(config(cluster), read_only=True) as guarded:
        refused = guarded.post("/api/do/nothing", {}, X_Minikafka_Token=guarded.token)
        assert refused.status == 403
        assert "read-only" in refused.json["error"]
        assert guarded.get("/api/snapshot").json[0]["read_only"] is True


@pytest.mark.mission("GLASS-14")
def test_a_second_page_of_the_machine_does_not_take_the_cookie_of_the_first(
    page: PageServer, cluster: InsideCluster
) -> None:
    with page_server(config(cluster)) as second:
        jar: dict[str, str] = {}  # one for all ports, as browsers have it
        for each in (page, second):
            cookie = each.get(f"/?token={each.token}").headers["set-cookie"].partition(";")[0]
            name, _, value = cookie.partition("=")
            jar[name] = value
        cookies = "; ".join(f"{name}={value}" for name, value in jar.items())
        for each in (page, second):
            assert each.post("/api/do/nothing", {}, Cookie=cookies).status != 403


@pytest.mark.mission("GLASS-14")
def test_the_token_moves_from_the_address_into_a_cookie_that_scripts_cannot_read(
    page: PageServer,
) -> None:
    reply = page.get(f"/?token={page.token}")
    assert (reply.status, reply.headers["location"]) == (303, "/")
    cookie = reply.headers["set-cookie"].lower()
    assert f"minikafka_token_{page.port}={page.token}" in cookie
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "set-cookie" not in page.get("/?token=guessed").headers
    assert page.token not in page.get("/").body.decode()


def test_every_response_has_the_policy_that_lets_only_own_files_in(page: PageServer) -> None:
    for path in ("/", "/static/app.js", "/api/snapshot", "/api/topics/absent", "/nothing"):
        reply = page.get(path)
        assert reply.headers["content-security-policy"].startswith("default-src 'self';"), path
        assert "unsafe" not in reply.headers["content-security-policy"]
        assert reply.headers["x-content-type-options"] == "nosniff"


def test_files_of_the_page_are_not_sent_twice(page: PageServer) -> None:
    first = page.get("/static/app.js")
    assert first.status == 200
    assert "javascript" in first.headers["content-type"]
    assert page.get("/static/app.js", If_None_Match=first.headers["etag"]).status == 304
    assert page.get("/static/../server.py").status == 404


@pytest.mark.mission("GLASS-17")
def test_open_streams_do_not_keep_the_server_from_ending(cluster: InsideCluster) -> None:
    with page_server(config(cluster)) as page:  # asserts that it ends
        opened = [page.stream() for _ in range(8)]
        streams = [stream.__enter__() for stream in opened]
        assert all(next(stream)[1]["type"] == "hello" for stream in streams)
    for stream in streams:
        list(stream)  # which has ended
    for each in opened:
        each.__exit__(None, None, None)


@pytest.mark.mission("GLASS-18")
def test_a_disk_that_is_full_ends_the_recording_and_not_the_page(cluster: InsideCluster) -> None:
    with page_server(config(cluster), record="/dev/full") as page:
        for _ in range(3):
            assert page.get("/api/snapshot").status == 200
    with pytest.raises(FileNotFoundError):
        asyncio.run(
            serve_page(
                real_world(),
                [PageSubject(PageOptions(record="/nonexistent/file"), None)],
                bind("127.0.0.1", 0, exact=True),
                asyncio.Event(),
                lambda address: None,
            )
        )


@pytest.mark.mission("GLASS-18")
def test_a_recording_is_not_recorded_over(tmp_path: Path) -> None:
    file = tmp_path / "recording.ndjson"
    file.write_text("{}\n")
    parser = argparse.ArgumentParser()
    ui.add_arguments(parser)
    with pytest.raises(ConfigError, match="not with --recording"):
        ui.run(parser.parse_args(["--recording", str(file), "--record", str(file)]))
    assert file.read_text() == "{}\n"


@pytest.mark.mission("GLASS-118")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--bootstrap-server b:1 --registry host:8081", "--registry host:8081: it is no address"),
        ("--bootstrap-server b:1 --registry-users file", "only with --registry"),
        ("--recording {file} --registry http://host:8081", "not with --recording"),
    ],
)
def test_a_wrong_registry_is_refused(tmp_path: Path, words: str, why: str) -> None:
    file = tmp_path / "recording.ndjson"
    file.write_text("{}\n")
    parser = argparse.ArgumentParser()
    ui.add_arguments(parser)
    with pytest.raises(ConfigError, match=why):
        ui.run(parser.parse_args(words.format(file=file).split()))


@pytest.mark.mission("GLASS-18")
def test_a_recording_is_written_and_shown_without_a_cluster(
    cluster: InsideCluster, tmp_path: Path
) -> None:
    file = tmp_path / "recording.ndjson"
    with page_server(config(cluster), record=str(file)) as page, page.stream() as events:
        while (None, "topic", TP.topic) not in states([next(events)[1]]):
            pass
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert (lines[0]["type"], lines[0]["live"]) == ("hello", False)
    assert (None, "topic", TP.topic) in states(lines)
    with page_server(None, recording=str(file), read_only=True) as page:
        assert page.get("/api/recording").body == file.read_bytes()
        (hello,) = page.get("/api/snapshot").json
        assert (hello["live"], hello["read_only"]) == (False, True)
        assert page.get("/api/topics").status == 404
