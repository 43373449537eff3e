"""The stage: whatever a reader has missed, it ends in the state of one that saw everything."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.page.dashboard import stage as stage_module
from minikafka.page.dashboard.messages import Hello, LoggedEvent, json_text
from minikafka.page.dashboard.stage import STATE_EVERY_MS, Stage

NAMES = ("a", "b", "c")
SOURCES = (None, 1, 2)


class Reducer:
    """What a page makes of messages, in the plainest way."""

    def __init__(self) -> None:
        self.hello: dict[str, Any] = {}
        self.entities: dict[tuple[Any, str, str], Any] = {}

    def read(self, message: dict[str, Any]) -> None:
        if message["type"] == "hello":
            self.hello = message
            self.entities = {}
        elif message["type"] == "state":
            source = message["broker"]
            if message["reset"]:
                self.entities = {key: f for key, f in self.entities.items() if key[0] != source}
            for row in message["removed"]:
                self.entities.pop((source, row["kind"], row["name"]), None)
            for row in message["changed"]:
                self.entities[source, row["kind"], row["name"]] = row["facts"]


class Reader:
    """Reads the series now and then, and continues by the id of its last message."""

    def __init__(self, stage: Stage) -> None:
        self.page = Reducer()
        self.snapshots = 0
        self._stage = stage
        self._id = ""

    def catch_up(self, at_most: int = 10**9) -> None:
        number = self._stage.number_of(self._id)
        news = None if number is None else self._stage.since(number)
        if news is None:
            self.snapshots += 1
            for message in self._stage.snapshot():
                self.page.read(json.loads(json_text(message)))
            self._id = self._stage.id_of(self._stage.last)
            return
        for each, text in news[:at_most]:
            self.page.read(json.loads(text))
            self._id = self._stage.id_of(each)


def new_stage() -> Stage:
    return Stage("boot", Hello(bootstrap="b:1"), 0)


ACTS = st.one_of(
    st.tuples(
        st.just("apply"),
        st.sampled_from(SOURCES),
        st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3), max_size=3),
        st.sets(st.sampled_from(NAMES), max_size=2),
    ),
    st.tuples(
        st.just("replace"),
        st.sampled_from(SOURCES),
        st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3), max_size=3),
    ),
    st.tuples(st.just("event"), st.sampled_from((1, 2))),
    st.tuples(st.just("flush"), st.integers(0, 2 * STATE_EVERY_MS)),
    st.tuples(st.just("greet"), st.booleans()),
    st.tuples(st.just("read"), st.integers(0, 2), st.integers(1, 3)),
)


@pytest.mark.mission("GLASS-10")
@settings(max_examples=200, deadline=None)
@given(acts=st.lists(ACTS, max_size=60), ring=st.sampled_from((2, 5, 1000)))
def test_a_reader_that_resumes_anywhere_ends_where_one_ends_that_saw_everything(
    acts: list[Any], ring: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage_module, "MAX_MESSAGES", ring)
        twin: dict[tuple[Any, str, str], Any] = {}
        stage, now_ms = new_stage(), 0
        readers = [Reader(stage) for _ in range(3)]
        faithful = Reader(stage)
        for act in acts:
            match act:
                case ("apply", source, changed, removed):
                    twin = {k: f for k, f in twin.items() if k[0] != source or k[2] not in removed}
                    twin |= {(source, "k", name): {"v": value} for name, value in changed.items()}
                    rows = [(("k", name), {"v": value}) for name, value in changed.items()]
                    stage.apply(source, now_ms, rows, [("k", name) for name in removed])
                case ("replace", source, changed):
                    twin = {k: f for k, f in twin.items() if k[0] != source}
                    twin |= {(source, "k", name): {"v": value} for name, value in changed.items()}
                    stage.replace(source, now_ms, {("k", n): {"v": v} for n, v in changed.items()})
                case ("event", broker):
                    stage.add_event(broker, LoggedEvent(1, now_ms, "info", "happened", {}))
                case ("flush", passed_ms):
                    now_ms += passed_ms
                    stage.flush(now_ms)
                case ("greet", ours):
                    stage.greet(stage.hello._replace(minikafka=ours), now_ms)
                case ("read", number, at_most):
                    readers[number].catch_up(at_most)
            faithful.catch_up()
        stage.flush(now_ms + STATE_EVERY_MS)
        for reader in (*readers, faithful):
            reader.catch_up()
            assert reader.page.entities == twin
            assert reader.page.hello["minikafka"] == stage.hello.minikafka


@pytest.mark.mission("GLASS-10")
def test_state_leaves_ten_times_a_second_with_the_latest_facts_only() -> None:
    stage = new_stage()
    stage.flush(0)
    states = []
    for now_ms in range(0, 1000, 10):
        stage.apply(1, now_ms, [(("partition", "t-0"), {"end": now_ms})])
        before = stage.last
        due_ms = stage.flush(now_ms)
        assert due_ms is None or now_ms < due_ms <= now_ms + STATE_EVERY_MS
        states += [json.loads(text) for _, text in stage.since(before) or []]
    assert [row["changed"][0]["facts"]["end"] for row in states] == list(range(0, 1000, 100))


@pytest.mark.mission("GLASS-10")
def test_each_source_has_its_own_rate() -> None:
    stage = new_stage()
    for source in SOURCES:
        stage.apply(source, 0, [(("k", "n"), {})])
    assert stage.flush(0) is None
    assert stage.last == len(SOURCES)


def test_equal_facts_are_no_news() -> None:
    stage = new_stage()
    stage.apply(1, 0, [(("k", "n"), {"v": 1})])
    stage.flush(0)
    stage.apply(1, 500, [(("k", "n"), {"v": 1})], [("k", "never there")])
    assert stage.flush(500) is None
    assert stage.last == 1


def test_replacing_keeps_entities_of_the_kinds_that_are_named() -> None:
    stage = new_stage()
    stage.apply(1, 0, [(("reachable", ""), {}), (("group", "g"), {})])
    stage.replace(1, 1, {("group", "h"): {}}, kept=("reachable",))
    assert set(stage.entities(1)) == {("reachable", ""), ("group", "h")}


@pytest.mark.mission("GLASS-10")
def test_events_keep_their_order_and_each_one_leaves() -> None:
    stage = new_stage()
    for number in range(1, 11):
        stage.add_event(1, LoggedEvent(number, 100 - number, "info", "happened", {"n": number}))
    news = stage.since(0)
    assert news is not None
    assert [json.loads(text)["number"] for _, text in news] == list(range(1, 11))
    shown = [m["number"] for m in stage.snapshot() if m["type"] == "event"]
    assert shown == list(range(10, 0, -1))  # a snapshot has them by time


@pytest.mark.mission("GLASS-10")
def test_the_ring_is_bounded_in_bytes_and_a_reader_behind_it_gets_a_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stage_module, "MAX_BYTES", 10_000)
    stage = new_stage()
    reader = Reader(stage)
    reader.catch_up()
    for number in range(100):
        stage.add_event(1, LoggedEvent(number, 0, "info", "happened", {"text": "x" * 1000}))
    kept = stage.since(stage.last - 5)
    assert kept is not None
    assert len(kept) == 5
    assert stage.since(stage.last - 50) is None
    reader.catch_up()
    assert reader.snapshots == 2


def test_an_id_of_another_process_is_not_used() -> None:
    stage = new_stage()
    assert stage.number_of(stage.id_of(7)) == 7
    for other in ("", "7", "other-7", "boot-", "boot-x", "boot-²", "boot--7", "boot-" + "9" * 30):
        assert stage.number_of(other) is None


def test_numbers_that_json_does_not_have_are_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"rate": float("nan")})
