"""The verb `fake`: brokers and faults for tests in any language."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError

import confluent_kafka
import kafka
import pytest

from minikafka.server.faults.injected import InjectedFaults
from minikafka.testing.fault_control import (
    MAX_BODY_BYTES,
    REQUEST_FAULTS,
    SELECTED,
    BadControl,
    fault_kinds,
    own_fields,
    parse_fault,
)
from minikafka.testing.request_faults import RequestFaults

KINDS = fault_kinds(RequestFaults(lambda work: work.close(), InjectedFaults(lambda: 0)))


class Fake:
    """`minikafka fake` as a child process."""

    def __init__(self, ready: str) -> None:
        facts = dict(word.split("=", 1) for word in ready.split()[1:])
        self.bootstrap, self.control = facts["bootstrap"], facts["control"]

    def request(self, method: str, path: str, value: Any = None, **headers: str) -> Any:
        body = None if value is None else json.dumps(value).encode()
        request = urllib.request.Request(self.control + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return json.load(response)
        except HTTPError as error:
            return error.code, json.load(error)["error"]


@pytest.fixture(scope="module")
def fake() -> Iterator[Fake]:
    command = [sys.executable, "-m", "minikafka.cli.main", "fake", "--brokers", "2"]
    command += ["--control", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Fake(process.stdout.readline())
            process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()


@pytest.mark.mission("IN-80")
def test_clients_see_the_faults_that_are_added_over_http(fake: Fake) -> None:
    fake.request("POST", "/topics", {"name": "t", "partitions": 2})
    wanted = {"fault": "answer", "error": "NOT_LEADER_OR_FOLLOWER", "api": "produce", "topic": "t"}
    added = fake.request("POST", "/faults", wanted | {"times": 2})
    assert added["hits"] == 0
    one = confluent_kafka.Producer({"bootstrap.servers": fake.bootstrap, "client.id": "one"})
    one.produce("t", b"1", partition=0)
    assert one.flush(20) == 0
    other = kafka.KafkaProducer(bootstrap_servers=fake.bootstrap, client_id="other", retries=5)
    other.send("t", b"2", partition=1).get(20)
    other.close()
    assert fake.request("GET", f"/faults/{added['id']}")["hits"] == 2
    for client in ("one", "other"):
        seen = fake.request("GET", f"/requests?api=Produce&client_id={client}")
        assert [each["api"] for each in seen][:1] == ["Produce"]
    removed = fake.request("DELETE", "/faults")
    assert [each["id"] for each in removed] == [added["id"]]
    assert fake.request("GET", "/faults") == []


@pytest.mark.mission("IN-80")
def test_a_hold_is_released_over_http(fake: Fake) -> None:
    fake.request("POST", "/topics", {"name": "held"})
    hold = fake.request("POST", "/faults", {"fault": "hold", "api": "produce", "topic": "held"})
    client = confluent_kafka.Producer({"bootstrap.servers": fake.bootstrap})
    client.produce("held", b"value")
    while fake.request("GET", f"/faults/{hold['id']}")["hits"] == 0:
        client.poll(0.01)
    assert len(client) == 1
    fake.request("POST", f"/faults/{hold['id']}/release")
    assert client.flush(20) == 0
    assert fake.request("DELETE", f"/faults/{hold['id']}")["hits"] == 1


@pytest.mark.mission("IN-81")
def test_brokers_are_killed_and_started_over_http(fake: Fake) -> None:
    assert fake.request("GET", "/brokers") == {"1": True, "2": True}
    assert fake.request("POST", "/brokers/2/kill") == {"broker": 2, "runs": False}
    assert fake.request("POST", "/brokers/2/start") == {"broker": 2, "runs": True}
    fake.request("POST", "/topics", {"name": "moved", "replicas": 2})
    for broker in (1, 2):
        fake.request("POST", "/leaders", {"topic": "moved", "partition": 0, "broker": broker})
    assert fake.request("POST", "/reset") == {}


@pytest.mark.mission("IN-80")
def test_faults_of_disks_and_links_are_added_over_http(fake: Fake) -> None:
    fake.request("POST", "/topics", {"name": "linked", "replicas": 1})
    fake.request("POST", "/leaders", {"topic": "linked", "partition": 0, "broker": 1})
    slow = fake.request("POST", "/faults", {"fault": "slow_link", "broker": 1, "seconds": 0.01})
    full = fake.request("POST", "/faults", {"fault": "full_disk", "broker": 1})
    producer = confluent_kafka.Producer({"bootstrap.servers": fake.bootstrap})
    producer.produce("linked", b"x")
    while not fake.request("GET", f"/faults/{full['id']}")["hits"]:
        producer.poll(0.01)
    assert fake.request("DELETE", f"/faults/{full['id']}")["fault"].startswith("full disk of br")
    assert producer.flush(20) == 0
    assert fake.request("GET", f"/faults/{slow['id']}")["hits"] > 0
    status, text = fake.request("POST", f"/faults/{slow['id']}/release")
    assert status == 400
    assert text.startswith("only a hold can be released, not: slow link of broker 1")
    links = [{"fault": "cut_link", "broker": 1, "other": 2}, {"fault": "cut_link", "broker": 2}]
    disks = [{"fault": "slow_disk", "broker": 1, "seconds": 0.5}]
    for wanted in links + disks:
        assert fake.request("POST", "/faults", wanted)["hits"] == 0
    assert len(fake.request("DELETE", "/faults")) == 4


@pytest.mark.mission("IN-81")
def test_the_cluster_is_changed_over_http(fake: Fake) -> None:
    for verb in ("pause", "resume", "isolate", "heal", "expire_session", "stop", "start"):
        runs = verb != "stop"
        assert fake.request("POST", f"/brokers/2/{verb}") == {"broker": 2, "runs": runs}
    for broker in (1, 2):
        wanted = {"group": "g", "broker": broker}
        assert fake.request("POST", "/coordinators", wanted) == wanted
    fake.request("POST", "/topics", {"name": "plain"})
    status, text = fake.request("POST", "/compact", {"topic": "plain"})
    assert (status, "cleanup.policy of plain" in text) == (409, True)
    assert fake.request("POST", "/retention", {"topic": "plain"}) == {"deleted_segments": 0}
    assert fake.request("POST", "/retention") == {"deleted_segments": 0}
    for version in ("2.8", None):
        assert fake.request("POST", "/version", {"version": version}) == {"version": version}
    assert fake.request("POST", "/version", {"version": "9"})[0] == 400
    assert fake.request("POST", "/reset") == {}


@pytest.mark.mission("IN-82")
@pytest.mark.parametrize(
    ("method", "path", "value", "error"),
    [
        ("POST", "/faults", {"fault": "anser"}, "no fault 'anser'; did you mean answer?"),
        ("POST", "/faults", {"fault": "answer"}, "the field 'error' is missing"),
        ("POST", "/faults", {"fault": "swallow", "topics": "t"}, "no field 'topics'; did you mean"),
        ("POST", "/faults", {"fault": "swallow", "times": "2"}, 'times is "2", which is no whole'),
        ("POST", "/faults", {"fault": "swallow", "times": 0}, "times is 0: a fault strikes"),
        ("POST", "/faults", {"fault": "delay", "seconds": True}, "seconds is true, which is no nu"),
        ("POST", "/faults", {"fault": "swallow", "api": "produse"}, "no API 'produse'; did you"),
        ("POST", "/faults", {"fault": "answer", "error": "NO"}, "no error 'NO'"),
        ("POST", "/faults", {"fault": "slow_dsk"}, "no fault 'slow_dsk'; did you mean slow_disk?"),
        ("POST", "/faults", {"fault": "full_disk"}, "the field 'broker' is missing"),
        ("POST", "/faults", {"fault": "full_disk", "broker": "1"}, 'broker is "1", which is no wh'),
        ("POST", "/faults", {"fault": "cut_link", "broker": 1, "api": "fetch"}, "no field 'api'"),
        ("POST", "/faults", {"fault": "broken_disk", "broker": 7}, "there is no broker 7"),
        ("POST", "/faults", [], "the body is no JSON object"),
        ("GET", "/faults/99", None, "no fault '99'"),
        ("POST", "/brokers/9/kill", None, "no broker '9'"),
        ("GET", "/requests?apis=Fetch", None, "no field 'apis'; did you mean api?"),
    ],
)
def test_senseless_requests_are_refused_with_a_reason(
    fake: Fake, method: str, path: str, value: Any, error: str
) -> None:
    status, text = fake.request(method, path, value)
    assert status == 400
    assert text.startswith(error)


@pytest.mark.mission("IN-82")
def test_other_paths_hosts_and_sizes_are_refused(fake: Fake) -> None:
    assert fake.request("GET", "/nothing")[0] == 404
    assert fake.request("GET", "/", Host="example.com")[0] == 421
    assert fake.request("POST", "/faults", "x" * MAX_BODY_BYTES)[0] == 413
    fake.request("POST", "/topics", {"name": "twice"})
    status, text = fake.request("POST", "/topics", {"name": "twice"})
    assert (status, "twice" in text) == (409, True)
    assert set(fake.request("GET", "/")["POST /faults"]["fault"]) == {
        *REQUEST_FAULTS,
        *("full_disk", "broken_disk", "slow_disk", "slow_link", "cut_link"),
    }


@pytest.mark.mission("IN-82")
def test_every_field_of_every_fault_has_a_type() -> None:
    values = {
        "error": "NONE",
        "at": "after",
        "seconds": 0.5,
        "of_broker": True,
        "probability": 0.5,
        "times": None,
    }
    assert len(KINDS) == 8
    for kind, add in KINDS.items():
        own = own_fields(add)
        needed = {name: values[name] for name in own if name != "at"}
        for name in (*own, *SELECTED):
            for value in (values.get(name, 1), "text", 1, None, []):
                problem = refused({"fault": kind, **needed, name: value})
                assert problem is None or problem.startswith(f"{name} is ")
            with pytest.raises(BadControl):
                parse_fault({"fault": kind, **needed, name: []}, KINDS)


def refused(wanted: dict[str, Any]) -> str | None:
    """Return why a fault is refused; None if it is not, and then nothing of it is lost."""
    try:
        kind, arguments = parse_fault(wanted, KINDS)
    except BadControl as error:
        return str(error)
    assert {"fault": kind, **arguments} == wanted
    return None
