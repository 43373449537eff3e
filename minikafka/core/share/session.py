"""Share sessions: which partitions each member of a share group fetches from, by epochs.

A member has one session at each broker. It opens with epoch 0, each request raises the epoch, and
epoch -1 closes it. Kafka: ``ShareSession``, ``ShareSessionCache``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Final, NamedTuple

from minikafka.core.share.persister import TopicIdPartition
from minikafka.kernel.errors import ErrorCode, KafkaError

OPENS: Final = 0
CLOSES: Final = -1
_LAST_EPOCH: Final = (1 << 31) - 1


class ShareSessionKey(NamedTuple):
    group_id: str
    member_id: str


class ShareSession:
    """The partitions of a session, each with whether the next response must have it, in the order
    in which they are fetched. ``connection`` is the one by which it was opened."""

    __slots__ = ("connection", "epoch", "key", "partitions")

    def __init__(
        self, key: ShareSessionKey, partitions: Sequence[TopicIdPartition], connection: Hashable
    ) -> None:
        self.key = key
        self.epoch = 1
        self.partitions = dict.fromkeys(partitions, False)
        self.connection = connection

    def raise_epoch(self) -> None:
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def update(
        self, named: Sequence[TopicIdPartition], forgotten: Sequence[TopicIdPartition]
    ) -> None:
        for where in named:
            self.partitions.setdefault(where, True)
        for where in forgotten:
            self.partitions.pop(where, None)

    def must_respond(self, where: TopicIdPartition, has_records: bool, has_error: bool) -> bool:
        """Return whether a response must contain a partition: it has records or an error, or is in
        a response for the first time. One with records moves to the end of the next fetch."""
        wanted = self.partitions.get(where)
        if wanted is None:  # forgotten meanwhile
            return has_records or has_error
        if has_records:
            del self.partitions[where]
        self.partitions[where] = has_error
        return wanted or has_records or has_error


class ShareSessions:
    """The share sessions at a broker, ``most`` of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sessions: dict[ShareSessionKey, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[ShareSession]:
        return iter(self._sessions.values())

    @property
    def partitions(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def get(self, key: ShareSessionKey) -> ShareSession | None:
        return self._sessions.get(key)

    def fetch(
        self,
        key: ShareSessionKey,
        epoch: int,
        named: Sequence[TopicIdPartition],
        forgotten: Sequence[TopicIdPartition],
        acknowledges: bool,
        connection: Hashable,
    ) -> ShareSession:
        """Open, continue or close a session by a fetch that names partitions. A session that closes
        stays until ``remove``.

        Raises KafkaError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, INVALID_REQUEST if
        the first fetch acknowledges records, SHARE_SESSION_LIMIT_REACHED."""
        if epoch == OPENS:
            if acknowledges:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            self._sessions.pop(key, None)
            if len(self._sessions) >= self._most:
                raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
            session = self._sessions[key] = ShareSession(key, named, connection)
            return session
        session = self._require(key, epoch)
        if epoch != CLOSES:
            session.update(named, forgotten)
            session.raise_epoch()
        return session

    def acknowledge(self, key: ShareSessionKey, epoch: int) -> None:
        """Continue or close a session by acknowledgements alone. Raises KafkaError as ``fetch``."""
        if epoch == OPENS:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = self._require(key, epoch)
        if epoch != CLOSES:
            session.raise_epoch()

    def _require(self, key: ShareSessionKey, epoch: int) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch not in (CLOSES, session.epoch):
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        return session

    def remove(self, key: ShareSessionKey) -> ShareSession | None:
        return self._sessions.pop(key, None)

    def has_group(self, group_id: str) -> bool:
        return any(key.group_id == group_id for key in self._sessions)

    def of_connection(self, connection: Hashable) -> list[ShareSession]:
        return [each for each in self._sessions.values() if each.connection is connection]


def rotated(partitions: Sequence[TopicIdPartition], epoch: int) -> Sequence[TopicIdPartition]:
    """Return the partitions in the order in which a fetch with this session epoch reads them: each
    fetch begins with another one."""
    if len(partitions) < 2 or epoch < 1:
        return partitions
    start = epoch % len(partitions)
    return [*partitions[start:], *partitions[:start]]
