"""The registry's decisions, and the state that its records amount to, under random requests."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from minikafka.registry import decisions
from minikafka.registry.decisions import ParsedSchema, Registration
from minikafka.registry.errors import RegistryError
from minikafka.registry.records import AVRO, Reference, Registered, SchemaText, StoreRecord
from minikafka.registry.state import ALL, LATEST, RegistryState, parse_version, replayed


class Number:
    """A schema for tests: it reads what a schema with the same or a lesser number has written."""

    kind = AVRO
    violations: Sequence[str] = ()

    def __init__(self, number: int) -> None:
        self.number = number
        self.canonical = str(number)

    def unreadable(self, writer: ParsedSchema) -> list[str]:
        return ["greater"] if int(writer.canonical) > self.number else []


def register(
    state: RegistryState, subject: str, number: int, **more: Any
) -> decisions.RegistryChange[Registered]:
    references = more.pop("references", ())
    earlier = {each.version: Number(int(each.schema.text)) for each in state.versions(subject)}
    schema = SchemaText(AVRO, str(number), references)
    return decisions.register(state, subject, Registration(schema, Number(number), earlier, **more))


class Topic:
    """The state and all records, as the registry would have them."""

    def __init__(self) -> None:
        self.state = RegistryState()
        self.records: list[StoreRecord] = []

    def apply(self, decision: decisions.RegistryChange[Any]) -> Any:
        for record in decision.records:
            self.state.apply(record)
            self.records.append(record)
        return decision.result

    def compacted(self) -> list[StoreRecord]:
        """Return the last record of each key, without tombstones."""
        last = {key: number for number, (key, _) in enumerate(self.records)}
        return [self.records[number] for number in sorted(last.values()) if self.records[number][1]]


def seen(state: RegistryState) -> tuple[Any, ...]:
    """Return everything that clients can see."""
    versions = state.all_versions(shown=ALL)
    subjects = [None, *(f"s{number}" for number in range(3))]
    return (
        versions,
        [state.with_id(number, ALL) for number in sorted({each.id for each in versions})],
        [(state.level(subject), state.mode(subject)) for subject in subjects],
    )


def random_step(dice: random.Random, state: RegistryState) -> decisions.RegistryChange[Any]:
    subject = f"s{dice.randrange(3)}"
    steps: list[Callable[[], decisions.RegistryChange[Any]]] = [
        lambda: register(state, subject, dice.randrange(6)),
        lambda: register(state, subject, dice.randrange(6)),
        lambda: decisions.delete_version(state, subject, dice.choice([LATEST, 1, 2]), False),
        lambda: decisions.delete_version(state, subject, dice.choice([LATEST, 1, 2]), True),
        lambda: decisions.delete_subject(state, subject, dice.random() < 0.5),
        lambda: decisions.set_level(state, dice.choice([None, subject]), dice.choice(LEVELS)),
        lambda: decisions.delete_level(state, dice.choice([None, subject])),
        lambda: decisions.set_mode(state, subject, dice.choice(["READWRITE", "READONLY"]), False),
        lambda: decisions.delete_mode(state, subject),
    ]
    return dice.choice(steps)()


LEVELS = ["NONE", "backward", "FORWARD", "FULL_TRANSITIVE"]


@pytest.mark.mission("REG-2", "REG-7")
@pytest.mark.parametrize("seed", range(60))
def test_the_topic_says_all_even_when_it_is_compacted(seed: int) -> None:
    dice, topic = random.Random(seed), Topic()
    refused = 0
    for _ in range(80):
        try:
            topic.apply(random_step(dice, topic.state))
        except RegistryError as error:
            refused += error.status in (404, 409, 422)
        by_id: dict[int, set[SchemaText]] = {}
        for each in topic.state.all_versions(shown=ALL):
            by_id.setdefault(each.id, set()).add(each.schema)
            assert topic.state.id_of(each.schema) == each.id
        assert all(len(schemas) == 1 for schemas in by_id.values())
    assert 0 < refused < 80
    assert topic.state.malformed == 0
    assert seen(replayed(topic.records)) == seen(topic.state)
    assert seen(replayed(topic.compacted())) == seen(topic.state)


@pytest.mark.mission("REG-3")
@pytest.mark.parametrize(
    ("level", "accepted"),
    [
        ("NONE", {1, 4, 5, 9}),
        ("BACKWARD", {5, 9}),  # the last version is 5
        ("BACKWARD_TRANSITIVE", {9}),
        ("FORWARD", {1, 4, 5}),
        ("FORWARD_TRANSITIVE", {1}),
        ("FULL", {5}),
        ("FULL_TRANSITIVE", set()),
    ],
)
def test_levels_compare_with_the_last_or_all_versions(level: str, accepted: set[int]) -> None:
    found = set()
    for number in (1, 4, 5, 9):
        topic = Topic()
        topic.apply(decisions.set_level(topic.state, None, "NONE"))
        for earlier in (8, 2, 5):
            topic.apply(register(topic.state, "s", earlier))
        topic.apply(decisions.set_level(topic.state, "s", level))
        earlier_ones = {1: Number(8), 2: Number(2), 3: Number(5)}
        wanted = Registration(SchemaText(AVRO, f"0{number}"), Number(number), earlier_ones)
        with suppress(RegistryError):
            found.add(decisions.register(topic.state, "s", wanted).result.schema.text)
    assert found == {f"0{number}" for number in accepted}


@pytest.mark.mission("REG-5")
def test_a_referenced_version_is_deleted_for_good_only_after_its_referrers() -> None:
    topic = Topic()
    topic.apply(register(topic.state, "inner", 1))
    topic.apply(register(topic.state, "outer", 2, references=(Reference("n", "inner", 1),)))
    with pytest.raises(RegistryError, match="references exist"):
        decisions.delete_version(topic.state, "inner", 1, False)
    topic.apply(decisions.delete_subject(topic.state, "outer", False))
    topic.apply(decisions.delete_version(topic.state, "inner", 1, False))
    with pytest.raises(RegistryError, match="references exist"):
        decisions.delete_version(topic.state, "inner", 1, True)
    topic.apply(decisions.delete_subject(topic.state, "outer", True))
    topic.apply(decisions.delete_version(topic.state, "inner", 1, True))


@pytest.mark.mission("REG-6")
def test_import_takes_ids_and_versions_that_a_request_names() -> None:
    topic = Topic()
    with pytest.raises(RegistryError, match="not in import mode"):
        register(topic.state, "s", 1, id=9)
    topic.apply(decisions.set_mode(topic.state, None, "IMPORT", False))
    topic.apply(register(topic.state, "s", 1, id=9, version=4))
    with pytest.raises(RegistryError, match="Overwrite"):
        register(topic.state, "s", 2, id=9)
    found = topic.state.version("s", LATEST)
    assert (found.id, found.version, topic.state.max_id) == (9, 4, 9)
    with pytest.raises(RegistryError, match="Cannot import"):
        decisions.set_mode(topic.state, None, "IMPORT", False)


@pytest.mark.mission("REG-7")
def test_records_of_confluents_registry_are_understood_and_kept_whole() -> None:
    key = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    value = (
        b'{"subject":"s","version":1,"id":3,"md5":"x","metadata":{"tags":{}},'
        b'"schema":"\\"string\\"","deleted":false}'
    )
    noop = (b'{"keytype":"NOOP","magic":0}', None)
    topic = Topic()
    topic.apply(decisions.RegistryChange(None, (noop, (key, value), (b"not JSON", b"{}"))))
    assert topic.state.schema(3) == SchemaText(AVRO, '"string"')
    assert topic.state.malformed == 1
    deletion = decisions.delete_version(topic.state, "s", 1, False)
    assert deletion.records[0] == (key, value.replace(b"false", b"true"))


def test_versions_of_paths() -> None:
    assert [parse_version(text) for text in ("latest", "-1", "7")] == [LATEST, LATEST, 7]
    for text in ("0", "-2", "x", "", "2147483648", "²"):
        with pytest.raises(RegistryError) as failed:
            parse_version(text)
        assert failed.value.code == 42202
