"""Reads a cluster over the protocol, any Kafka: topics, offsets, groups, transactions.

Each call is tried once with a short time-out, by the admin client's connections. A call that fails
is noted in ``errors``, which the caller passes; what it would have returned is missing. An API that
a broker does not have is no error.
"""

from __future__ import annotations

import asyncio
from collections import ChainMap
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from minikafka.client.admin.admin import Admin
from minikafka.core.client.admin import groups as group_calls
from minikafka.core.client.admin import replicas
from minikafka.core.client.admin import transactions as transaction_calls
from minikafka.core.client.admin.groups import GroupDescription, GroupListing
from minikafka.core.client.admin.share_groups import (
    ShareGroupDescription,
    SharePartitionStart,
    describe_share_groups,
    share_group_offsets,
)
from minikafka.core.client.admin.streams_groups import (
    StreamsGroupDescription,
    describe_streams_groups,
)
from minikafka.core.client.admin.transactions import TransactionDescription, TransactionListing
from minikafka.core.client.calls import Call
from minikafka.core.client.cluster_view import (
    ClusterView,
    Node,
    check_metadata,
    group_by_leader,
    merge,
    metadata_request,
)
from minikafka.core.client.consumer.group_calls import (
    MANY_GROUPS_VERSION,
    Offsets,
    offset_fetch,
    offset_fetch_of_groups,
)
from minikafka.core.client.consumer.list_offsets_call import list_offsets
from minikafka.core.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from minikafka.core.config_resources import SOFTWARE_VERSION, ResourceType
from minikafka.kernel.cluster import ReplicaAssignment, TopicPartition
from minikafka.kernel.config import ConfigError
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.listeners import DEBUG_LISTENER, debug_listener
from minikafka.page.dashboard.cluster_facts import (
    BrokerAbout,
    FailedCall,
    PartitionOffsets,
    Totals,
    totals,
)
from minikafka.protocol.api_keys import ApiKey
from minikafka.protocol.messages.metadata import MetadataResponse

TIMEOUT_MS: Final = 2_000  # of one request
ALL_TOPICS_TIMEOUT_MS: Final = 10_000
LIST_MAX_AGE_MS: Final = 3_000
STALE_MS: Final = 60_000  # a list of a large cluster waits rather than show this
# The metadata of so many partitions are read less often.
MEDIUM: Final = 200
MEDIUM_MAX_AGE_MS: Final = 2_500  # unless a broker has logged something meanwhile
LARGE: Final = 2_000
LARGE_MAX_AGE_MS: Final = 10_000
AT_ONCE: Final = 20  # requests about groups under way
GROUPS_AT_ONCE: Final = 100  # in a request

# The broker does not respond, and will not respond to the next call either.
SILENT: Final = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})

T = TypeVar("T")
Errors = list[FailedCall]


class ClusterReader:
    """``view`` has what the last Metadata response said, and the other topics from before;
    ``whole`` is from the last response about all topics, which ``totals`` counts."""

    def __init__(self, admin: Admin) -> None:
        self.view = ClusterView()
        self.whole = ClusterView()
        self.totals = Totals(0, 0, 0, 0)
        self._session = admin.session
        self._admin = admin
        self._read_ms: int | None = None  # when that was
        self._reading: asyncio.Task[None] | None = None
        self._changes_expected = False
        self._few = asyncio.Semaphore(AT_ONCE)

    # ----------------------------------------------------------------------------------- metadata

    async def all_topics(self, max_age_ms: int) -> ClusterView:
        """Return a view of all topics, by one request or from one not longer ago than so long.

        Callers share a request. Raises KafkaError if no broker responds."""
        age_ms = self._age_ms()
        if age_ms is None or age_ms > max_age_ms:
            await asyncio.shield(self._refresh())
        return self.whole

    async def listed_topics(self) -> ClusterView:
        """Return a view of all topics for a list, which is of some seconds ago in a large cluster:
        then it is read again meanwhile, for the next one. Raises KafkaError."""
        age_ms = self._age_ms()
        if age_ms is None or self.totals.partitions < LARGE or age_ms > STALE_MS:
            return await self.all_topics(LIST_MAX_AGE_MS)
        if age_ms > LIST_MAX_AGE_MS:
            self._refresh()
        return self.whole

    async def topics(self, names: Iterable[str]) -> ClusterView:
        """Return the view with the current state of these topics and the brokers. In a large
        cluster the other topics are of some seconds ago. Raises KafkaError."""
        if self._read_ms is None or self.totals.partitions < MEDIUM or self._changes_expected:
            self._changes_expected = False
            return await self.all_topics(0)
        if self.totals.partitions < LARGE:
            return await self.all_topics(MEDIUM_MAX_AGE_MS)
        whole = await self.all_topics(LARGE_MAX_AGE_MS)
        known = {name: self.view.topics[name] for name in names if name in self.view.topics}
        response = await self._metadata(sorted(known))
        recent = merge(ClusterView(topics=known), response, ())
        # Copying the whole view would take longer than the request.
        topics = ChainMap(dict(recent.topics), dict(whole.topics))
        leaders = ChainMap(dict(recent.leaders), dict(whole.leaders))
        self._set(replace(recent, topics=topics, leaders=leaders))
        return self.view

    def expect_changes(self) -> None:
        """Read all topics at the next look, unless there are very many."""
        self._changes_expected = self.totals.partitions < LARGE

    async def about(self, broker_id: int) -> BrokerAbout:
        """Return which software a broker is and where its inside is shown. Raises KafkaError."""
        found = await self._admin.describe_configs(
            ResourceType.BROKER,
            str(broker_id),
            [DEBUG_LISTENER, SOFTWARE_VERSION],
            timeout_ms=TIMEOUT_MS,
        )
        version, listener = found.get(SOFTWARE_VERSION), found.get(DEBUG_LISTENER)
        try:
            endpoint = debug_listener(None if listener is None else listener.value)
        except ConfigError:  # not a key of ours in that cluster
            endpoint = None
        return BrokerAbout(None if version is None else version.value, endpoint)

    # -------------------------------------------------------------------------------------- reads

    async def offsets(
        self, partitions: Iterable[TopicPartition], errors: Errors
    ) -> dict[TopicPartition, PartitionOffsets]:
        """Return log start, high watermark and last stable offset of each partition."""
        wanted = list(partitions)
        starts, ends, stable = await asyncio.gather(
            self._listed(wanted, EARLIEST_TIMESTAMP, False, errors),
            self._listed(wanted, LATEST_TIMESTAMP, False, errors),
            self._listed(wanted, LATEST_TIMESTAMP, True, errors),
        )
        return {tp: PartitionOffsets(starts.get(tp), ends.get(tp), stable.get(tp)) for tp in wanted}

    async def ends(
        self, partitions: Iterable[TopicPartition], errors: Errors
    ) -> dict[TopicPartition, int]:
        """Return the high watermarks of partitions."""
        return await self._listed(list(partitions), LATEST_TIMESTAMP, False, errors)

    async def sizes(
        self, partitions: Iterable[TopicPartition], errors: Errors
    ) -> dict[TopicPartition, dict[int, int]]:
        """Return the bytes of the replicas of partitions, by broker. A replica that moves to
        another directory of its broker counts once."""
        topics: dict[str, list[int]] = {}
        for tp in partitions:
            topics.setdefault(tp.topic, []).append(tp.partition)
        call = replicas.describe_log_dirs(topics)
        found: dict[TopicPartition, dict[int, int]] = {}
        described = await self._every_broker("DescribeLogDirs", call, errors)
        for broker_id, directories in described.items():
            for directory in directories.values():
                for tp, replica in directory.replicas.items():
                    if not replica.is_future:
                        found.setdefault(tp, {})[broker_id] = replica.size_bytes
        return found

    async def list_groups(self, errors: Errors) -> dict[str, tuple[int, GroupListing]]:
        """Return the coordinator and the listing of every group, by id."""
        listed = await self._every_broker("ListGroups", group_calls.list_groups((), ()), errors)
        return {
            row.group_id: (broker_id, row) for broker_id, rows in listed.items() for row in rows
        }

    async def describe_groups(
        self, coordinators: Mapping[str, int], errors: Errors
    ) -> dict[str, GroupDescription]:
        """Describe groups by one request to each coordinator, and another one for its consumer
        groups (KIP-848): as classic groups these are Dead."""
        found = await self._describe(
            "DescribeGroups", group_calls.describe_groups, coordinators, errors
        )
        dead = {name: coordinators[name] for name, row in found.items() if row.state == "Dead"}
        call = group_calls.describe_consumer_groups
        return found | await self._describe("ConsumerGroupDescribe", call, dead, errors)

    async def describe_streams_groups(
        self, coordinators: Mapping[str, int], errors: Errors
    ) -> dict[str, StreamsGroupDescription]:
        """Describe streams groups by one request to each coordinator."""
        return await self._describe(
            "StreamsGroupDescribe", describe_streams_groups, coordinators, errors
        )

    async def describe_share_groups(
        self, coordinators: Mapping[str, int], errors: Errors
    ) -> dict[str, ShareGroupDescription]:
        """Describe share groups by one request to each coordinator."""
        return await self._describe(
            "ShareGroupDescribe", describe_share_groups, coordinators, errors
        )

    async def share_starts(
        self, coordinators: Mapping[str, int], errors: Errors
    ) -> dict[str, dict[TopicPartition, SharePartitionStart | KafkaError | None]]:
        """Return where the share-partitions of groups start, by a request for each group."""

        async def one(group_id: str, broker_id: int) -> Any:
            call = share_group_offsets(group_id, None)
            async with self._few:
                return await self._try("DescribeShareGroupOffsets", broker_id, call, errors)

        outcomes = await asyncio.gather(*(one(*each) for each in coordinators.items()))
        found = zip(coordinators, outcomes, strict=True)
        return {group_id: starts for group_id, starts in found if starts is not None}

    async def _describe(
        self,
        name: str,
        call: Callable[[list[str], Node], Call[dict[str, T | KafkaError]]],
        coordinators: Mapping[str, int],
        errors: Errors,
    ) -> dict[str, T]:
        by_broker = _keys_by_value(coordinators)
        tries = [
            self._try(name, broker_id, call(ids, self.view.nodes[broker_id]), errors)
            for broker_id, ids in by_broker.items()
            if broker_id in self.view.nodes
        ]
        outcomes = await asyncio.gather(*tries)
        return {
            group_id: outcome
            for found in outcomes
            for group_id, outcome in (found or {}).items()
            if not isinstance(outcome, KafkaError)
        }

    async def committed(
        self, coordinators: Mapping[str, int], errors: Errors
    ) -> dict[str, Offsets]:
        """Return the offsets that groups have committed: by few requests to each coordinator,
        or before Kafka 3.0 by one for each group."""
        found: dict[str, Offsets] = {}

        async def all_of(broker_id: int, group_ids: list[str]) -> None:
            call = offset_fetch_of_groups(group_ids)
            async with self._few:
                outcomes = await self._try("OffsetFetch", broker_id, call, errors)
            for group_id, outcome in (outcomes or {}).items():
                if not isinstance(outcome, KafkaError):
                    found[group_id] = outcome
                elif (failed := FailedCall("OffsetFetch", broker_id, str(outcome))) not in errors:
                    errors.append(failed)

        async def one(broker_id: int, group_id: str) -> None:
            call = offset_fetch(group_id, None, require_stable=False)
            async with self._few:
                offsets = await self._try("OffsetFetch", broker_id, call, errors)
            if offsets is not None:
                found[group_id] = offsets

        tries: list[Coroutine[Any, Any, None]] = []
        for broker_id, group_ids in _keys_by_value(coordinators).items():
            versions = self._session.connections.versions(broker_id)
            if versions.get(ApiKey.OFFSET_FETCH, (0, 0))[1] >= MANY_GROUPS_VERSION:
                starts = range(0, len(group_ids), GROUPS_AT_ONCE)
                tries += [all_of(broker_id, group_ids[i : i + GROUPS_AT_ONCE]) for i in starts]
            else:
                tries += [one(broker_id, group_id) for group_id in group_ids]
        await asyncio.gather(*tries)
        return found

    async def list_transactions(self, errors: Errors) -> list[TransactionListing]:
        """Return the transactions of all brokers (from Kafka 3.0 on), by transactional id."""
        call = transaction_calls.list_transactions((), (), -1)
        listed = await self._every_broker("ListTransactions", call, errors)
        return transaction_calls.transaction_listings(listed)

    async def describe_transactions(
        self, coordinators: Mapping[str, int], errors: Errors
    ) -> dict[str, TransactionDescription]:
        """Describe transactions by one request to each coordinator."""
        tries = [
            self._try(
                "DescribeTransactions",
                broker_id,
                transaction_calls.describe_transactions(ids, broker_id),
                errors,
            )
            for broker_id, ids in _keys_by_value(coordinators).items()
        ]
        outcomes = await asyncio.gather(*tries)
        return {
            name: outcome
            for found in outcomes
            for name, outcome in (found or {}).items()
            if not isinstance(outcome, KafkaError)
        }

    async def reassignments(self, errors: Errors) -> dict[TopicPartition, ReplicaAssignment]:
        controller = self.view.controller_id
        if controller not in self.view.nodes:
            return {}
        call = replicas.list_partition_reassignments(None, TIMEOUT_MS)
        return await self._try("ListPartitionReassignments", controller, call, errors) or {}

    # ------------------------------------------------------------------------------------- inside

    def _age_ms(self) -> int | None:
        """Return how long ago all topics were read."""
        now_ms = self._session.world.clock.monotonic_ms()
        return None if self._read_ms is None else now_ms - self._read_ms

    def _refresh(self) -> asyncio.Task[None]:
        """Return the task that reads all topics; start it unless it runs."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_all(), name="all-topics")
            self._reading.add_done_callback(_retrieve)
        return self._reading

    async def _read_all(self) -> None:
        response = await self._metadata(None)
        if max(self.totals.partitions, len(response.topics)) < LARGE:
            self.whole = merge(self.whole, response, ())
        else:  # in a thread: it takes a tenth of a second with ten thousand topics
            workers = self._session.world.workers
            self.whole = await workers.run(merge, self.whole, response, ())
        self._set(self.whole)
        self.totals = totals(self.whole.topics.values())
        self._read_ms = self._session.world.clock.monotonic_ms()

    def _set(self, view: ClusterView) -> None:
        self.view = view
        self._session.connections.set_nodes(view.nodes)

    async def _metadata(self, names: list[str] | None) -> MetadataResponse:
        """Send Metadata to the controller, which knows of changes first, or to any broker."""

        def read(response: MetadataResponse) -> MetadataResponse:
            check_metadata(response)
            return response

        call = Call(metadata_request(names), read)
        timeout_ms = ALL_TOPICS_TIMEOUT_MS if names is None else TIMEOUT_MS
        controller = self.view.controller_id
        if controller in self.view.nodes:
            try:
                return await self._session.call_within(controller, call, TIMEOUT_MS)
            except KafkaError:
                pass  # it may have died, and another broker knows
        deadline_ms = self._session.deadline_ms(timeout_ms)
        return await self._session.call_any(call, deadline_ms)

    async def _listed(
        self, partitions: list[TopicPartition], timestamp: int, stable: bool, errors: Errors
    ) -> dict[TopicPartition, int]:
        view = self.view
        groups = group_by_leader(dict.fromkeys(partitions, timestamp), view.leaders)
        tries = [
            self._try("ListOffsets", leader, list_offsets(wanted, view, int(stable)), errors)
            for leader, wanted in groups.by_leader.items()
        ]
        outcomes = await asyncio.gather(*tries)
        return {
            tp: at.offset
            for found in outcomes
            for tp, at in (found.found if found is not None else {}).items()
            if at.offset >= 0
        }

    async def _every_broker(self, name: str, call: Call[T], errors: Errors) -> dict[int, T]:
        brokers = sorted(self.view.nodes)
        tries = [self._try(name, broker_id, call, errors) for broker_id in brokers]
        found = await asyncio.gather(*tries)
        return {
            broker_id: result
            for broker_id, result in zip(brokers, found, strict=True)
            if result is not None
        }

    async def _try(self, name: str, broker_id: int, call: Call[T], errors: Errors) -> T | None:
        """Carry out a call once; None if it fails, which ``errors`` then say. A broker that has not
        responded to a call in this look gets no other one."""
        if any(failed.broker == broker_id and failed.silent for failed in errors):
            return None
        try:
            return await self._session.call_within(broker_id, call, TIMEOUT_MS)
        except KafkaError as error:
            failed = FailedCall(name, broker_id, str(error), error.code in SILENT)
            if error.code is not ErrorCode.UNSUPPORTED_VERSION and failed not in errors:
                errors.append(failed)
            return None


def _retrieve(task: asyncio.Task[None]) -> None:
    """Let an exception be no surprise where no caller waits."""
    if not task.cancelled():
        task.exception()


def _keys_by_value(values: Mapping[str, int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for key, value in values.items():
        found.setdefault(value, []).append(key)
    return found
