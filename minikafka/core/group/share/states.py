"""Which share-partitions of a group have a state at the share coordinators (KIP-932)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from minikafka.core.group.modern.partitions import (
    Partitions,
    difference,
    read_rows,
    rows_of,
    union,
)
from minikafka.core.metadata_image import MetadataImage
from minikafka.core.share.persister import TopicIdPartition
from minikafka.protocol.messages.share_group_membership_log import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)

_UNKNOWN: Final = "<UNKNOWN>"  # Kafka's name of a topic that the metadata lack


class StatePartitions(NamedTuple):
    """The share-partitions whose states are being initialized, those whose are initialized, and the
    topics whose states are being deleted. ``names`` has the names of these topics. Methods return
    the value that is stored after one step.

    Kafka: ``ShareGroupStatePartitionMetadataInfo``."""

    initializing: Partitions
    initialized: Partitions
    deleting: frozenset[UUID]
    names: Mapping[UUID, str]

    def begin(self, partitions: Partitions, image: MetadataImage) -> StatePartitions:
        """Begin to initialize the states of ``partitions``."""
        return self._changed(
            image,
            initializing=union(self.initializing, partitions),
            deleting=self.deleting - partitions.keys(),
        )

    def complete(self, partitions: Partitions, image: MetadataImage) -> StatePartitions:
        """End the initialization of ``partitions`` with success."""
        return self._changed(
            image,
            initializing=difference(self.initializing, partitions),
            initialized=union(self.initialized, partitions),
        )

    def give_up(self, partitions: Partitions, image: MetadataImage) -> StatePartitions:
        """End the initialization of ``partitions`` without success."""
        return self._changed(image, initializing=difference(self.initializing, partitions))

    def begin_deletion(self, topics: Collection[UUID], image: MetadataImage) -> StatePartitions:
        """Begin to delete the initialized states of ``topics``."""
        return self._changed(
            image,
            initialized=_without(self.initialized, topics),
            deleting=self.deleting.union(topics),
        )

    def begin_deletion_of_all(self, image: MetadataImage) -> StatePartitions:
        """Begin to delete all states, also those of topics that still exist and whose deletion has
        failed before."""
        known = {topic for topic in self.deleting if topic in image.topic_names}
        topics = {*self.initialized, *self.initializing, *known}
        return self._changed(image, {}, {}, frozenset(topics))

    def forget(self, topics: Collection[UUID], image: MetadataImage) -> StatePartitions:
        """Remove topics that do not exist any more."""
        return self._changed(
            image,
            _without(self.initializing, topics),
            _without(self.initialized, topics),
            self.deleting.difference(topics),
        )

    def end_deletion(self, topics: Iterable[UUID], image: MetadataImage) -> StatePartitions:
        """End the deletion of the states of ``topics`` with success."""
        return self._changed(image, deleting=self.deleting.difference(topics))

    def _changed(
        self,
        image: MetadataImage,
        initializing: Partitions | None = None,
        initialized: Partitions | None = None,
        deleting: frozenset[UUID] | None = None,
    ) -> StatePartitions:
        initializing = self.initializing if initializing is None else initializing
        initialized = self.initialized if initialized is None else initialized
        deleting = self.deleting if deleting is None else deleting
        topics = {*initializing, *initialized, *deleting}
        known = {topic: self.names.get(topic, _UNKNOWN) for topic in topics}
        names = {topic: image.topic_names.get(topic, name) for topic, name in known.items()}
        return StatePartitions(initializing, initialized, deleting, names)


NO_STATES: Final = StatePartitions({}, {}, frozenset(), {})


def stored_states(states: StatePartitions) -> ShareGroupStatePartitionMetadataValue:
    names = states.names
    return ShareGroupStatePartitionMetadataValue(
        [TopicPartitionsInfo(t, names[t], rows) for t, rows in rows_of(states.initializing)],
        [TopicPartitionsInfo(t, names[t], rows) for t, rows in rows_of(states.initialized)],
        [TopicInfo(topic, names[topic]) for topic in sorted(states.deleting)],
    )


def read_states(value: ShareGroupStatePartitionMetadataValue) -> StatePartitions:
    rows: list[TopicPartitionsInfo | TopicInfo] = [
        *value.initializing_topics,
        *value.initialized_topics,
        *value.deleting_topics,
    ]
    return StatePartitions(
        read_rows(value.initializing_topics),
        read_rows(value.initialized_topics),
        frozenset(row.topic_id for row in value.deleting_topics),
        {row.topic_id: row.topic_name for row in rows},
    )


def lacking(topics: Iterable[str], present: Partitions, image: MetadataImage) -> Partitions:
    """Return the partitions of the existing topics that are not ``present``."""
    found: Partitions = {}
    for topic in sorted(topics):
        topic_id = image.topic_ids.get(topic)
        if topic_id is None:
            continue
        there, count = present.get(topic_id, frozenset()), len(image.topics[topic])
        if len(there) < count:
            missing = frozenset(range(count)) - there
            if missing:
                found[topic_id] = missing
    return found


def all_partitions(topics: Iterable[UUID], image: MetadataImage) -> Partitions:
    """Return all partitions of the existing topics among ``topics``."""
    names = ((topic, image.topic_names.get(topic)) for topic in topics)
    return {topic: frozenset(image.topics[name]) for topic, name in names if name is not None}


def each(partitions: Partitions) -> list[TopicIdPartition]:
    """Return each partition with its topic id, in the order of partition numbers."""
    return [TopicIdPartition(topic, n) for topic, rows in rows_of(partitions) for n in rows]


def _without(partitions: Partitions, topics: Collection[UUID]) -> Partitions:
    return {topic: some for topic, some in partitions.items() if topic not in topics}
