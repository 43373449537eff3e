"""Requests to other brokers made of what piles up: one at a time, each item answered once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from minikafka.network.broker_senders import BrokerSenderConfig, BrokerSenders
from minikafka.protocol.codec import decode
from minikafka.protocol.frames import decode_request_header, encode_response
from minikafka.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from minikafka.server.listeners.server_connection import ServerConnection
from tests.support.network.network_lab import Lab

Item = tuple[str, int]  # a key, a number


class Broker:
    """Notes the keys of each request; answers them when told to, or hangs up."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.waiting: list[Any] = []
        self.connections: list[ServerConnection] = []

    def __call__(self, connection: ServerConnection, frame: memoryview) -> None:
        header, position = decode_request_header(frame)
        request = decode(FindCoordinatorRequest, header.api_version, frame, position)
        self.asked.append(list(request.coordinator_keys))
        self.connections.append(connection)
        self.waiting.append((connection.open_slot(len(frame)), header, request))

    def answer(self) -> None:
        slot, header, request = self.waiting.pop(0)
        found = [Coordinator(key, 7) for key in request.coordinator_keys]
        response = FindCoordinatorResponse(coordinators=found)
        slot.send(encode_response(header.correlation_id, response, header.api_version))


class Ends:
    """What each item came to: the key that the answer named, or None."""

    def __init__(self) -> None:
        self.told: list[tuple[Item, str | None]] = []

    def __call__(self, items: Sequence[Item], response: Any) -> None:
        for place, item in enumerate(items):
            key = None if response is None else response.coordinators[place].key
            self.told.append((item, key))


@asynccontextmanager
async def sending(lab: Any, addresses: dict[int, tuple[str, int]]) -> Any:
    ends = Ends()
    senders: BrokerSenders[Item] = BrokerSenders(
        lab.network,
        lab.clock,
        BrokerSenderConfig("me"),
        addresses.get,
        lambda item: item[0],
        lambda items: (FindCoordinatorRequest(coordinator_keys=[key for key, _ in items]), 4),
        ends,
        lab.log,
    )
    async with asyncio.TaskGroup() as tasks:
        senders.start(tasks)
        yield senders, ends
        senders.close()


async def test_queued_items_are_batched_into_the_next_request(lab: Lab) -> None:
    broker = Broker()
    server = await lab.serve(broker)
    async with sending(lab, {1: ("127.0.0.1", server.port)}) as (senders, ends):
        senders.put(1, ("a", 1))
        await lab.until(lambda: len(broker.asked) == 1)
        for item in (("b", 2), ("c", 3), ("b", 4), ("d", 5), ("b", 6)):
            senders.put(1, item)
        assert senders.queued == 5
        for requests in range(2, 5):
            broker.answer()
            await lab.until(partial(lambda wanted: len(broker.asked) == wanted, requests))
        broker.answer()
        await lab.until(lambda: len(ends.told) == 6)
        assert broker.asked == [["a"], ["b", "c", "d"], ["b"], ["b"]]
        assert [item for item, _ in ends.told] == [
            ("a", 1),
            ("b", 2),
            ("c", 3),
            ("d", 5),
            ("b", 4),
            ("b", 6),
        ]
        assert all(key == item[0] for item, key in ends.told)
        assert len(set(map(id, broker.connections))) == 1


async def test_a_broker_that_hangs_up_is_called_again(lab: Lab) -> None:
    broker = Broker()
    server = await lab.serve(broker)
    async with sending(lab, {1: ("127.0.0.1", server.port)}) as (senders, ends):
        senders.put(1, ("a", 1))
        await lab.until(lambda: len(broker.asked) == 1)
        broker.connections[0].refuse("tired")
        await lab.until(lambda: ends.told == [(("a", 1), None)])
        senders.put(1, ("a", 2))
        await lab.until(lambda: len(broker.asked) == 2)
        broker.waiting.pop(0)
        broker.answer()
        await lab.until(lambda: ends.told[1:] == [(("a", 2), "a")])


async def test_items_for_a_dead_broker_fail_at_once(lab: Lab) -> None:
    async with sending(lab, {}) as (senders, ends):
        senders.put(9, ("a", 1))
        senders.put(9, ("a", 2))
        await lab.until(lambda: len(ends.told) == 2)
        assert [key for _, key in ends.told] == [None, None]


async def test_after_close_nothing_is_sent_and_no_callback_is_called(lab: Lab) -> None:
    broker = Broker()
    server = await lab.serve(broker)
    async with sending(lab, {1: ("127.0.0.1", server.port)}) as (senders, ends):
        senders.put(1, ("a", 1))
        await lab.until(lambda: len(broker.asked) == 1)
        senders.put(1, ("b", 2))
        senders.close()
        senders.put(1, ("c", 3))
    assert (broker.asked, ends.told) == ([["a"]], [])
