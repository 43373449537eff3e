"""The consumer group to which a query commits the offsets that it has processed.

Tools that show the lag of consumer groups then show that of the query. Spark does not read these
offsets: a query restarts from its checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from minikafka.core.client.calls import raise_gravest
from minikafka.core.client.consumer.group_calls import offset_commit
from minikafka.core.client.offsets import GroupMetadata, with_metadata
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.spark.client_options import ClientOptions
from minikafka.spark.cluster import BlockingCoordinators, Cluster
from minikafka.spark.failure_text import print_to_stderr
from minikafka.spark.read.offsets import Offsets
from minikafka.world.real.wall_clock import WallClock

_TIMEOUT_MS: Final = 2_000  # a batch waits so long for a commit
_AFTER_FAILURE_MS: Final = 10_000  # from a failed commit to the next one
# Brokers delete the offsets of a group without members some time after their last commit.
_REPEAT_MS: Final = 300_000
_ADVICE: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID: "it has members: give the query a separate group",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "the query's principal needs the ACL Read on it",
}
_ADVICE_OF_MEMBERS: Final = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS)


class GroupCommits:
    """Commits the offsets of one query to one group. Call ``close`` at the end.

    A failed commit never raises an error, because nothing depends on it: ``complain`` is called
    with a line, once for each reason, and ``failure`` has that line until a commit succeeds. The
    next commit has the offsets of the failed one, or later ones."""

    def __init__(
        self,
        client: ClientOptions,
        group: str,
        complain: Callable[[str], object] | None = None,
    ) -> None:
        self._cluster = Cluster(
            replace(
                client,
                api_timeout_ms=_TIMEOUT_MS,
                connection_setup_timeout_ms=_TIMEOUT_MS,
                delivery_timeout_ms=_TIMEOUT_MS,
                first_contact_timeout_ms=_TIMEOUT_MS,
                request_timeout_ms=_TIMEOUT_MS,
            )
        )
        self._group = group
        self._complain = complain or print_to_stderr
        self._clock = WallClock()
        self._committed: Offsets = {}
        self._not_before_ms: float = 0
        self._repeat_at_ms: float = 0
        self.failure: str | None = None

    def commit(self, offsets: Offsets) -> None:
        """Commit the next offset to read of each partition, unless it is committed already.

        Waits for the response, for at most some seconds."""
        now_ms = self._clock.monotonic_ms()
        is_new = offsets != self._committed or now_ms >= self._repeat_at_ms
        if not offsets or not is_new or now_ms < self._not_before_ms:
            return
        try:
            commit_offsets(self._cluster, self._group, offsets)
        except KafkaError as error:
            self._not_before_ms = self._clock.monotonic_ms() + _AFTER_FAILURE_MS
            self._fail(error)
            return
        self._committed = dict(offsets)
        self._repeat_at_ms = now_ms + _REPEAT_MS
        if self.failure is not None:
            self.failure = None
            self._complain(f"offsets are committed to group {self._group} again")

    def close(self) -> None:
        self._cluster.close()

    def _fail(self, error: KafkaError) -> None:
        failure = f"offsets not committed to group {self._group}: {_reason(error)}"
        if failure != self.failure:
            self.failure = failure
            self._complain(f"{failure} (the query goes on: its offsets are in its checkpoint)")


def commit_offsets(cluster: Cluster, group: str, offsets: Offsets) -> None:
    """Commit offsets for a consumer group without members. Raises KafkaError."""
    call = offset_commit(GroupMetadata(group), with_metadata(offsets))
    raise_gravest(BlockingCoordinators(cluster).call(call).values())


def _reason(error: KafkaError) -> str:
    known = ErrorCode.UNKNOWN_MEMBER_ID if error.code in _ADVICE_OF_MEMBERS else error.code
    advice = _ADVICE.get(known)
    return f"{error.code.name}, {advice}" if advice else str(error)
