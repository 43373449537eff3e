"""A share consumer's session at one broker: what it fetches and acknowledges (KIP-932)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from minikafka.core.client.consumer.fetched import ConsumerRecord, consumer_records
from minikafka.core.share.share_partition import AcknowledgeType
from minikafka.kernel.cluster import TopicPartition, grouped
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.kernel.lazy_dataclass import dataclass
from minikafka.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from minikafka.protocol.messages.share_fetch import (
    CLOSES,
    OPENS,
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from minikafka.protocol.records.batch import CorruptRecordError, crc_is_valid, iterate_batches

_LAST_EPOCH: Final = (1 << 31) - 1
_LOST_SESSION: Final = frozenset(
    {ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH}
)


class SharePlace(NamedTuple):
    """A partition by the id and the name of its topic."""

    topic_id: UUID
    topic_partition: TopicPartition


class ShareRecord(NamedTuple):
    """A record that a share consumer has acquired, for the ``delivery_count``-th time; the other
    fields are those of ``ConsumerRecord``."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Any
    leader_epoch: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class ShareFetchLimits:
    """The limits of a ShareFetch."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 52_428_800
    max_records: int = 500
    acquire_mode: int = 0


AcknowledgeErrors: TypeAlias = dict[TopicPartition, KafkaError | None]
# Types by offset.
_Types: TypeAlias = dict[int, int]


class ShareFetched(NamedTuple):
    """What a response has: acquired records, the outcome of acknowledgements, and errors of
    fetches."""

    records: list[ShareRecord]
    acknowledged: AcknowledgeErrors
    errors: dict[TopicPartition, KafkaError]


class ShareFetchSession:
    """The share session of one member at one broker. One request is sent at a time.

    ``fetch_request`` and ``acknowledge_request`` have the acknowledgements that ``acknowledge`` has
    collected; ``fetched`` and ``acknowledged`` read the responses, and ``lost`` is called without
    one."""

    def __init__(self, group_id: str, member_id: str) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self._epoch = OPENS
        self._places: dict[tuple[UUID, int], SharePlace] = {}  # of the session
        self._wanted: dict[tuple[UUID, int], SharePlace] = {}
        self._types: dict[SharePlace, _Types] = {}
        self._sent: dict[SharePlace, _Types] = {}

    @property
    def is_open(self) -> bool:
        return self._epoch != OPENS

    @property
    def has_acknowledgements(self) -> bool:
        return bool(self._types)

    @property
    def places(self) -> Collection[SharePlace]:
        return self._places.values()

    def forget_acknowledgements(self) -> None:
        self._types = {}

    def acknowledge(self, place: SharePlace, offset: int, kind: int) -> None:
        self._types.setdefault(place, {})[offset] = kind

    # -- requests

    def fetch_request(
        self, places: Collection[SharePlace], limits: ShareFetchLimits
    ) -> ShareFetchRequest:
        """Return the next fetch from these partitions; the session remembers them."""
        self._wanted = {_key(place): place for place in places}
        added = [place for key, place in self._wanted.items() if key not in self._places]
        gone = [place for key, place in self._places.items() if key not in self._wanted]
        sent = self._send() if self.is_open else {}
        rows = {_key(place): FetchPartition(place.topic_partition.partition) for place in added}
        for place, types in sent.items():
            empty = FetchPartition(place.topic_partition.partition)
            rows.setdefault(_key(place), empty).acknowledgement_batches = _batches(types)
        named = grouped((topic_id, row) for (topic_id, _), row in rows.items())
        forgotten = grouped((place.topic_id, place.topic_partition.partition) for place in gone)
        return ShareFetchRequest(
            self._group_id,
            self._member_id,
            self._epoch,
            limits.max_wait_ms,
            limits.min_bytes,
            limits.max_bytes,
            limits.max_records,
            limits.max_records,
            limits.acquire_mode,
            topics=[FetchTopic(*topic) for topic in named.items()],
            forgotten_topics_data=[ForgottenTopic(*topic) for topic in forgotten.items()],
        )

    def acknowledge_request(self, closes: bool = False) -> ShareAcknowledgeRequest:
        """Return the request with the acknowledgements alone, which perhaps closes the session."""
        sent = self._send()
        rows = grouped(
            (
                place.topic_id,
                AcknowledgePartition(place.topic_partition.partition, _batches(types)),
            )
            for place, types in sent.items()
        )
        kinds = {kind for types in sent.values() for kind in types.values()}
        return ShareAcknowledgeRequest(
            self._group_id,
            self._member_id,
            CLOSES if closes else self._epoch,
            AcknowledgeType.RENEW in kinds,
            [AcknowledgeTopic(*topic) for topic in rows.items()],
        )

    def _send(self) -> dict[SharePlace, _Types]:
        self._sent, self._types = self._types, {}
        return self._sent

    # -- responses

    def fetched(self, response: ShareFetchResponse, check_crcs: bool) -> ShareFetched:
        """Read a response to ``fetch_request``. Raises KafkaError for an error of the whole request
        that does not concern the session alone, and CorruptRecordError."""
        if not self._continues(response.error_code):
            return ShareFetched([], self.lost(ErrorCode(response.error_code)), {})
        self._places = self._wanted
        fetched = ShareFetched([], dict.fromkeys(_names(self._sent)), {})
        known = {**self._places, **{_key(place): place for place in self._sent}}
        self._sent = {}
        for topic in response.responses:
            for row in topic.partitions:
                place = known.get((topic.topic_id, row.partition_index))
                if place is None:
                    continue
                if row.acknowledge_error_code:
                    fetched.acknowledged[place.topic_partition] = KafkaError(
                        ErrorCode(row.acknowledge_error_code), row.acknowledge_error_message
                    )
                if row.error_code:
                    error = KafkaError(ErrorCode(row.error_code), row.error_message)
                    fetched.errors[place.topic_partition] = error
                elif row.acquired_records:
                    fetched.records.extend(self._acquired(place, row, check_crcs))
        return fetched

    def acknowledged(self, response: ShareAcknowledgeResponse) -> AcknowledgeErrors:
        """Read a response to ``acknowledge_request``: the error of each partition, or None. Raises
        KafkaError as ``fetched``."""
        if not self._continues(response.error_code):
            return self.lost(ErrorCode(response.error_code))
        outcomes: AcknowledgeErrors = dict.fromkeys(_names(self._sent))
        known = {_key(place): place for place in self._sent}
        self._sent = {}
        for topic in response.responses:
            for row in topic.partitions:
                place = known.get((topic.topic_id, row.partition_index))
                if place is not None and row.error_code:
                    error = KafkaError(ErrorCode(row.error_code), row.error_message)
                    outcomes[place.topic_partition] = error
        return outcomes

    def _continues(self, code: int) -> bool:
        """Raise the epoch after a success. Return False if the session is lost."""
        if code in _LOST_SESSION:
            return False
        if code:
            self.lost(ErrorCode(code))
            raise KafkaError(ErrorCode(code))
        self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1
        return True

    def lost(self, code: ErrorCode) -> AcknowledgeErrors:
        """Begin a new session with the next fetch. Return the errors of acknowledgements, which may
        or may not have arrived."""
        names = [*_names(self._sent), *_names(self._types)]
        self._epoch, self._places, self._sent, self._types = OPENS, {}, {}, {}
        return {name: KafkaError(code) for name in names}

    def _acquired(self, place: SharePlace, row: Any, check_crcs: bool) -> Iterator[ShareRecord]:
        """Yield the acquired records among those of a response, and acknowledge gaps."""
        counts = {
            offset: acquired.delivery_count
            for acquired in row.acquired_records
            for offset in range(acquired.first_offset, acquired.last_offset + 1)
        }
        for batch in iterate_batches(row.records):
            if batch.is_control:
                continue
            if check_crcs and not crc_is_valid(batch):
                where = f"{place.topic_partition}: batch at offset {batch.base_offset}"
                raise CorruptRecordError(f"{where} has a wrong CRC")
            for record in consumer_records(place.topic_partition, batch):
                count = counts.pop(record.offset, None)
                if count is not None:
                    yield ShareRecord(*record, count)
        for offset in counts:
            self.acknowledge(place, offset, AcknowledgeType.GAP)


def _key(place: SharePlace) -> tuple[UUID, int]:
    return place.topic_id, place.topic_partition.partition


def _names(types: Mapping[SharePlace, _Types]) -> list[TopicPartition]:
    return [place.topic_partition for place in types]


def _batches(types: _Types) -> list[AcknowledgementBatch]:
    """Return the acknowledgements, one batch for each run of offsets."""
    batches: list[AcknowledgementBatch] = []
    for offset in sorted(types):
        if batches and batches[-1].last_offset + 1 == offset:
            batches[-1].last_offset = offset
            batches[-1].acknowledge_types.append(types[offset])
        else:
            batches.append(AcknowledgementBatch(offset, offset, [types[offset]]))
    for batch in batches:
        if len(set(batch.acknowledge_types)) == 1:
            del batch.acknowledge_types[1:]
    return batches


def plain(record: ShareRecord) -> ConsumerRecord:
    """Return the record without its delivery count, for deserializers."""
    return ConsumerRecord(*record[:-1])
