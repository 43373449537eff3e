"""The conformance kit passes a broker that keeps the rules, and finds each rule that is broken."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from minikafka.cli.main import FAILED, OK, USAGE, main
from minikafka.kernel.errors import ErrorCode
from minikafka.protocol.api_keys import ApiKey, Release
from minikafka.testing.conformance.check import Check
from minikafka.testing.conformance.connection import Connection
from minikafka.testing.conformance.expectations import NotOffered
from minikafka.testing.conformance.groups.catalogue import ALL
from minikafka.testing.conformance.run import CheckOutcome, Result, is_demanded, run_checks
from minikafka.testing.conformance.subject import Address, Subject
from minikafka.testing.inside.cluster import InsideCluster
from minikafka.world.real.world import RealClock

SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with InsideCluster(1, SETTINGS) as cluster:
        yield cluster.bootstrap


def address(bootstrap: str) -> Address:
    host, _, port = bootstrap.rpartition(":")
    return Address(host, int(port))


def results(bootstrap: str, *groups: str, **options: Any) -> list[Result]:
    chosen = {name: ALL[name] for name in groups or ALL}
    return asyncio.run(run_checks(address(bootstrap), RealClock().wall_ms(), chosen, **options))


def failed(found: list[Result]) -> dict[str, str]:
    return {each.check.name: each.text for each in found if each.outcome is CheckOutcome.FAILED}


@pytest.mark.mission("JUDGE-90")
@pytest.mark.timeout(240)
def test_every_check_passes(bootstrap: str) -> None:
    found = results(bootstrap, release=Release.KAFKA_4_2, limit_s=60)
    assert failed(found) == {}
    assert {each.outcome for each in found} == {CheckOutcome.PASSED}
    assert len(found) == sum(map(len, ALL.values()))


@pytest.mark.mission("JUDGE-90")
def test_nothing_is_left_behind(bootstrap: str) -> None:
    results(bootstrap, "metadata", "offsets")

    async def names() -> set[str]:
        connection = await Connection.open(*address(bootstrap))
        try:
            listed = await connection.ask(ApiKey.METADATA, 12, topics=None)
            groups = await connection.ask(ApiKey.LIST_GROUPS, 4)
        finally:
            connection.close()
        return {each.name for each in listed.topics} | {each.group_id for each in groups.groups}

    assert {name for name in asyncio.run(names()) if name.startswith("conformance")} == set()


def test_each_check_says_where_it_comes_from() -> None:
    for group, checks in ALL.items():
        names = [check.name for check in checks]
        assert len(set(names)) == len(names), group
        for check in checks:
            assert check.source, check.name
            assert check.consequence.endswith("."), check.name


def hide(error: ErrorCode, value: Any) -> None:
    """Set each error code within a response that is ``error`` to 0."""
    if isinstance(value, list):
        for element in value:
            hide(error, element)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            found = getattr(value, field.name)
            if field.name.endswith("error_code"):
                if found == error:
                    setattr(value, field.name, 0)
            else:
                hide(error, found)


PLANTED = [
    ("metadata", ApiKey.METADATA, ErrorCode.UNKNOWN_TOPIC_ID, {"an unknown topic id is an error"}),
    (
        "produce",
        ApiKey.PRODUCE,
        ErrorCode.CORRUPT_MESSAGE,
        {"a batch with a wrong CRC is refused"},
    ),
    ("idempotence", ApiKey.PRODUCE, ErrorCode.INVALID_PRODUCER_EPOCH, {"an old epoch is fenced"}),
    (
        "fetch-sessions",
        ApiKey.FETCH,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        {"a wrong epoch is an error"},
    ),
    (
        "list-offsets",
        ApiKey.LIST_OFFSETS,
        ErrorCode.INVALID_REQUEST,
        {"a partition that is named twice is an error"},
    ),
    (
        "leader-epochs",
        ApiKey.FETCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        {"a fetch with a newer epoch is refused"},
    ),
    (
        "classic-groups",
        ApiKey.HEARTBEAT,
        ErrorCode.FENCED_INSTANCE_ID,
        {"the predecessor of a static member is fenced"},
    ),
    (
        "offsets",
        ApiKey.OFFSET_COMMIT,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        {"metadata have a limit"},
    ),
    (
        "transactions",
        ApiKey.OFFSET_FETCH,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        {"pending offsets can be waited for"},
    ),
    (
        "admin",
        ApiKey.DELETE_RECORDS,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        {"records that do not exist cannot be deleted"},
    ),
    (
        "consumer-groups",
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ErrorCode.FENCED_MEMBER_EPOCH,
        {"a wrong epoch is fenced"},
    ),
    (
        "share-groups",
        ApiKey.SHARE_ACKNOWLEDGE,
        ErrorCode.INVALID_RECORD_STATE,
        {"what was not taken cannot be acknowledged"},
    ),
]


@pytest.mark.mission("JUDGE-92")
@pytest.mark.parametrize(("group", "key", "error", "expected"), PLANTED, ids=lambda v: str(v)[:20])
def test_a_broker_that_hides_an_error_fails_its_check(
    bootstrap: str,
    monkeypatch: pytest.MonkeyPatch,
    group: str,
    key: ApiKey,
    error: ErrorCode,
    expected: set[str],
) -> None:
    plain = Connection.ask

    async def ask(self: Connection, asked: ApiKey, version: int, /, **fields: Any) -> Any:
        response = await plain(self, asked, version, **fields)
        if asked is key:
            hide(error, response)
        return response

    monkeypatch.setattr(Connection, "ask", ask)
    assert failed(results(bootstrap, group, limit_s=60)).keys() == expected


async def hangs(s: Subject) -> None:
    connection = await s.connect()
    await connection.receive()


async def is_hung_up_on(s: Subject) -> None:
    connection = await s.connect()
    await connection.exchange(b"\0\0\0\x02\0\0")


async def is_misunderstood(s: Subject) -> None:
    raise AttributeError("no such field")


async def is_not_cleaned_up(s: Subject) -> None:
    async def ending() -> None:
        raise RuntimeError("no more")

    s.at_end(ending)


async def holds(s: Subject) -> None:
    await s.topic()


@pytest.mark.mission("JUDGE-92")
def test_a_broker_that_hangs_or_closes_fails_one_check_alone(bootstrap: str) -> None:
    rules = (hangs, is_hung_up_on, is_misunderstood, is_not_cleaned_up, holds)
    checks = [Check(rule.__name__, "none", "None.", rule) for rule in rules]
    found = asyncio.run(
        run_checks(address(bootstrap), RealClock().wall_ms(), {"own": checks}, limit_s=2)
    )
    assert [(each.outcome, each.text) for each in found] == [
        (CheckOutcome.FAILED, "no result after 2 s"),
        (CheckOutcome.FAILED, "the broker closed the connection"),
        (CheckOutcome.FAILED, "AttributeError: no such field"),
        (CheckOutcome.FAILED, "what the check has made was not deleted: RuntimeError: no more"),
        (CheckOutcome.PASSED, ""),
    ]


@pytest.mark.mission("JUDGE-93")
def test_a_profile_demands_what_its_release_has() -> None:
    share = NotOffered("ShareFetch", ApiKey.SHARE_FETCH, (0, 99))
    assert not is_demanded(share, Release.KAFKA_3_9)
    assert not is_demanded(share, Release.KAFKA_4_0)
    assert is_demanded(share, Release.KAFKA_4_2)
    old = NotOffered("Fetch version 0", ApiKey.FETCH, (0, 3))
    assert is_demanded(old, Release.KAFKA_2_0)
    assert is_demanded(old, Release.KAFKA_3_9)
    assert not is_demanded(old, Release.KAFKA_4_0)
    assert not is_demanded(NotOffered("a feature"), Release.KAFKA_3_9)
    assert is_demanded(NotOffered("a feature"), Release.KAFKA_4_0)


@pytest.mark.mission("JUDGE-93")
def test_the_verb_reports_as_table_json_and_junit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with InsideCluster(1, SETTINGS) as cluster:
        cluster.as_version("3.9")
        words = ["conformance", "--bootstrap-server", cluster.bootstrap, "--group", "share-groups"]
        assert main(words) == OK
        table = capsys.readouterr().out.splitlines()
        assert table[0].split() == ["group", "passed", "failed", "not", "offered"]
        assert table[-1].split() == ["total", "0", "0", "16"]

        file = tmp_path / "junit.xml"
        more = ["--json", "--junit", str(file), "--profile", "4.2"]
        assert main([*words, *more]) == FAILED
        found = json.loads(capsys.readouterr().out)
        assert found["counts"] == {"passed": 0, "failed": 16, "not_offered": 0}
        assert "ShareGroupHeartbeat" in found["checks"][0]["text"]
        (suite,) = ElementTree.parse(file).getroot()
        assert (suite.get("tests"), suite.get("failures")) == ("16", "16")
        assert len(suite.findall("testcase/failure")) == 16

    assert main(["conformance", "--list", "--group", "frames"]) == OK
    assert len(capsys.readouterr().out.splitlines()) == len(ALL["frames"])
    assert main(["conformance"]) == USAGE
