"""The end of a transaction without a response: which calls may be retried, and the errors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.client import Producer
from minikafka.client.producer.transaction_manager import TransactionManagerState
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.testing.simulated import SimulatedCluster, play
from tests.simulation.client.test_client_transactions import ORIGINAL, committed, settings


class Answers:
    """Between a producer and its brokers: requests of ``lost`` are carried out, and their answers
    do not come before ``delay_s``, and then as none."""

    def __init__(self, producer: Producer, delay_s: float = 0) -> None:
        self.lost: type | None = None
        self.delay_s = delay_s
        self._usual = producer.session.connections.request
        producer.session.connections.request = self._request  # type: ignore[method-assign]

    async def _request(self, node_id: int, message: Any, **keys: Any) -> Any:
        answer = await self._usual(node_id, message, **keys)
        if self.lost is not None and isinstance(message, self.lost):
            await asyncio.sleep(self.delay_s)
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no answer")
        return answer


async def code_of(awaitable: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        await awaitable
    return caught.value.code


def test_after_a_commit_without_response_only_the_commit_may_be_retried() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", 1)
        async with cluster.producer(transactional_id="x") as producer:
            answers = Answers(producer)
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send("t", b"one")
            answers.lost = EndTxnRequest
            for _ in range(2):
                assert await code_of(producer.commit_transaction()) is ErrorCode.REQUEST_TIMED_OUT
            answers.lost = None
            assert await code_of(producer.abort_transaction()) is ErrorCode.INVALID_TXN_STATE
            assert await code_of(producer.send("t", b"?")) is ErrorCode.INVALID_TXN_STATE
            with pytest.raises(KafkaError):
                producer.begin_transaction()
            await producer.commit_transaction()
            async with producer.transaction():
                await producer.send("t", b"two")
        assert await committed(cluster, "t") == [b"one", b"two"]

    play(scenario, brokers=1, settings=settings(1))


def test_cancelling_a_commit_does_not_abort_the_transaction() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", 1)
        async with cluster.producer(transactional_id="x") as producer:
            answers = Answers(producer, delay_s=3600)
            await producer.init_transactions()
            answers.lost = EndTxnRequest
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5), producer.transaction():
                    await producer.send("t", b"one")
            answers.lost = None
            await producer.commit_transaction()
            async with producer.transaction():
                await producer.send("t", b"two")
        assert await committed(cluster, "t") == [b"one", b"two"]

    play(scenario, brokers=1, settings=settings(1))


async def failing(producer: Producer) -> None:
    async with producer.transaction():
        await producer.send_and_wait("t", b"sent")
        await producer.send("t", b"queued")
        raise RuntimeError("enough")


@pytest.mark.parametrize(
    ("lost", "own"),
    [(EndTxnRequest, {}), (EndTxnRequest, ORIGINAL), (InitProducerIdRequest, ORIGINAL)],
)
def test_an_abort_without_response_can_be_retried(lost: type, own: dict[str, str]) -> None:
    """In version 2 of transactions EndTxn has the next epoch, and InitProducerId is not sent."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", 1)
        async with cluster.producer(transactional_id="x", linger_ms=100) as producer:
            answers = Answers(producer)
            await producer.init_transactions()
            answers.lost = lost
            with pytest.raises(RuntimeError, match="enough") as caught:
                await failing(producer)
            assert "could not be aborted" in caught.value.__notes__[0]
            assert await code_of(producer.commit_transaction()) is ErrorCode.INVALID_TXN_STATE
            answers.lost = None
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send("t", b"two")
        assert await committed(cluster, "t") == [b"two"]

    play(scenario, brokers=1, settings=settings(1) | own)


def test_a_commit_with_a_fatal_error_ends_the_producer() -> None:
    """The producer's epoch is fenced, so the producer cannot be used again."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", 1)
        keys = {"transactional_id": "x", "transaction_timeout_ms": 1_000}
        async with cluster.producer(**keys) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send("t", b"one")
            await producer.flush()
            await asyncio.sleep(60)  # the coordinator has aborted it
            refused = await code_of(producer.commit_transaction())
            assert not refused.retriable
            assert producer._transactions is not None
            assert producer._transactions.state is TransactionManagerState.FATAL
            assert await code_of(producer.abort_transaction()) is refused
        assert await committed(cluster, "t") == []

    play(scenario, brokers=1, settings=settings(1))
