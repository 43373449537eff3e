"""The registry with a store in memory: which requests check a schema against its specification."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from minikafka.registry import decisions
from minikafka.registry.errors import RegistryError
from minikafka.registry.records import (
    AVRO,
    Reference,
    Registered,
    SchemaText,
    StoreRecord,
    schema_record,
)
from minikafka.registry.service import Registry
from minikafka.registry.state import LIVE, RegistryState

RECORD = '{"type":"record","name":"R","fields":[%s]}'
HYPHEN = SchemaText(AVRO, RECORD % '{"name":"a-b","type":"int"}', ())
WIDER = SchemaText(AVRO, RECORD % '{"name":"a-b","type":"int"},{"name":"c-d","type":"int"}', ())
RENAMED = SchemaText(AVRO, RECORD % '{"name":"a_b","type":"int","default":0}', ())


class MemoryStore:
    def __init__(self, state: RegistryState) -> None:
        self._state = state

    async def append(self, records: tuple[StoreRecord, ...]) -> None:
        for record in records:
            self._state.apply(record)


def play(*stored: Registered, requests: Callable[[Registry], Awaitable[Any]]) -> Any:
    """Return the result of ``requests`` to a registry whose topic has the ``stored`` schemas."""

    async def run() -> Any:
        state = RegistryState()
        for each in stored:
            state.apply(schema_record(each))
        registry = Registry(state, MemoryStore(state))
        running = asyncio.create_task(registry.run())
        try:
            return await requests(registry)
        finally:
            running.cancel()

    return asyncio.run(run())


@pytest.mark.mission("REG-11")
def test_a_new_schema_that_breaks_a_rule_is_refused() -> None:
    async def requests(registry: Registry) -> None:
        for request in (
            registry.register("s", HYPHEN, None, None),
            registry.register("s", HYPHEN, -1, None),
            registry.check("s", HYPHEN, None),
        ):
            with pytest.raises(RegistryError, match="a-b") as failed:
                await request
            assert (failed.value.status, failed.value.code) == (422, 42201)
        assert registry.state.subjects() == []

    play(requests=requests)


@pytest.mark.mission("REG-7", "REG-11")
def test_a_stored_schema_that_breaks_a_rule_is_still_used() -> None:
    async def requests(registry: Registry) -> None:
        assert (await registry.lookup("s", HYPHEN, LIVE)).id == 7
        assert (await registry.register("s", HYPHEN, None, None)).version == 1
        assert await registry.check("s", RENAMED, None) == []
        reference = (Reference("R", "s", 1),)
        outer = SchemaText(AVRO, '{"type":"array","items":"R"}', reference)
        assert (await registry.register("t", outer, None, None)).id == 8
        with pytest.raises(RegistryError, match="is no name"):
            await registry.register("s", WIDER, None, None)

    play(Registered("s", 1, 7, HYPHEN), requests=requests)


@pytest.mark.mission("REG-6")
def test_an_imported_schema_is_not_checked() -> None:
    async def requests(registry: Registry) -> Registered:
        await registry.change(lambda state: decisions.set_mode(state, "s", "IMPORT", False))
        return await registry.register("s", HYPHEN, 7, 3)

    assert play(requests=requests) == Registered("s", 3, 7, HYPHEN)


def test_a_bug_fails_one_request_and_the_next_one_is_served() -> None:
    def fails(state: RegistryState) -> Any:
        raise RecursionError("a bug")

    async def requests(registry: Registry) -> Any:
        with pytest.raises(RecursionError):
            await registry.change(fails)
        return await registry.register("s", RENAMED, None, None)

    assert play(requests=requests).version == 1
