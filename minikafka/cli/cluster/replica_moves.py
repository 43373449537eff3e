"""Moves of replicas to the log directories that a reassignment file names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from minikafka.client.admin.admin import Admin
from minikafka.kernel.cluster import TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.ports import Clock

ASK_AGAIN_MS: Final = 100


class Replica(NamedTuple):
    broker: int
    partition: TopicPartition

    def __str__(self) -> str:
        return f"{self.partition}-{self.broker}"


class ReplicaDirectories(NamedTuple):
    """The log directory of a replica, and the one to which it is being moved."""

    current: str | None = None
    future: str | None = None


async def begin_moves(
    admin: Admin, clock: Clock, wanted: Mapping[Replica, str], timeout_ms: int
) -> None:
    """Start the moves of replicas to the ``wanted`` log directories.

    A broker cannot move a replica that it does not have yet: such requests are retried. Raises
    KafkaError if a request fails otherwise, ConfigError after ``timeout_ms``.
    """
    waiting = dict(wanted)
    deadline_ms = clock.monotonic_ms() + timeout_ms
    while True:
        for replica in sorted(await _begun(admin, waiting)):
            path, (topic, partition) = waiting.pop(replica), replica.partition
            print(
                f"Successfully started moving log directory to {path} for replica "
                f"{topic}-{partition} with broker {replica.broker}"
            )
        if not waiting:
            return
        if clock.monotonic_ms() >= deadline_ms:
            raise ConfigError(
                "Timed out before log directory moves could be started for "
                + ",".join(map(str, sorted(waiting)))
            )
        await clock.sleep(ASK_AGAIN_MS)


async def _begun(admin: Admin, wanted: Mapping[Replica, str]) -> list[Replica]:
    begun: list[Replica] = []
    for broker in sorted({replica.broker for replica in wanted}):
        paths = {r.partition: path for r, path in wanted.items() if r.broker == broker}
        for partition, error in (await admin.alter_replica_log_dirs(broker, paths)).items():
            if error is None:
                begun.append(Replica(broker, partition))
            elif error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                raise KafkaError(error.code, f"Failed to alter dir for {broker}: {error}")
    return begun


async def places(admin: Admin, replicas: Iterable[Replica]) -> dict[Replica, ReplicaDirectories]:
    """Return the present log directories of the replicas. Raises KafkaError."""
    found = dict.fromkeys(replicas, ReplicaDirectories())
    described = await admin.describe_log_dirs({replica.broker for replica in found})
    for broker, directories in described.items():
        for path, directory in directories.items():
            for partition, held in directory.replicas.items():
                replica = Replica(broker, partition)
                if replica in found:
                    place = found[replica]
                    found[replica] = (
                        place._replace(future=path)
                        if held.is_future
                        else place._replace(current=path)
                    )
    return found


def move_line(replica: Replica, place: ReplicaDirectories, target: str) -> str:
    """Return the line of ``reassign --verify`` about one replica."""
    where = f"Partition {replica.partition} on broker {replica.broker}"
    if place.current is None:
        return (
            f"Partition {replica.partition} is not found in any live log dir on broker "
            f"{replica.broker}. There is likely an offline log directory on the broker."
        )
    if place.future == target:
        return f"Reassignment of replica {replica} is still in progress."
    if place.future is not None:
        return f"{where} is being moved to log dir {place.future} instead of {target}."
    if place.current == target:
        return f"Reassignment of replica {replica} completed successfully."
    return f"{where} is not being moved from log dir {place.current} to {target}."
