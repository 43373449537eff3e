"""A member of the consumer protocol (KIP-848): sends heartbeats, and reconciles in polls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from minikafka.client.consumer.group_member import GroupMember
from minikafka.core.client.calls import Call
from minikafka.core.client.consumer.consumer_membership import (
    ConsumerMembership,
    ConsumerMemberState,
)
from minikafka.core.client.consumer.membership import Next
from minikafka.kernel.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from minikafka.protocol.schema import Message


class ConsumerMember(GroupMember[ConsumerMembership]):
    """Carries out the heartbeats of a ``ConsumerMembership``.

    The heartbeat task learns what is assigned; the next poll reconciles, and then the next
    heartbeat is sent at once.
    """

    _refusal: KafkaError | None = None  # for the next poll; the member goes on

    async def step(self) -> None:
        if self._error is not None:
            raise self._error
        await self._give_up_lost()
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise refusal
        membership, owner = self.membership, self._owner
        if membership.state is ConsumerMemberState.OUT and owner.knows_topics():
            membership.join()
            self._beat_now()
        elif self._sees_new_metadata() and not membership.has_sent(owner.topics(), owner.regex()):
            self._beat_now()
        await self._reconcile()

    def subscription_changed(self) -> None:
        self._beat_now()

    async def _reconcile(self) -> None:
        """Give up what is no longer assigned, then take what is.

        The member takes what the newest response says, and not what was assigned before the
        listener was called: the coordinator may have revoked that meanwhile.
        """
        membership, owner = self.membership, self._owner
        revoked = membership.to_revoke()
        if revoked:
            try:
                await owner.give_up(sorted(revoked.values()), False)
            finally:
                membership.release(revoked)
        names = self._topic_names()
        if membership.lacks_names(names):
            self._session.metadata.request_update()
        added = membership.take(names)
        if revoked or added is not None:
            self._beat_now()
        if added is not None:
            self.rebalances += 1
            await owner.take_over(sorted(membership.owned.values()), added)

    def _topic_names(self) -> dict[UUID, str]:
        topics = self._session.metadata.view.topics.values()
        return {topic.topic_id: topic.name for topic in topics if topic.error is ErrorCode.NONE}

    async def _send_heartbeat(self) -> Next:
        membership, owner = self.membership, self._owner
        request = membership.heartbeat_request(owner.topics(), owner.regex())
        call: Call[ConsumerGroupHeartbeatResponse] = Call(request, _whole)
        try:
            response = await self.call(call, self._session.config.request_timeout_ms)
        except KafkaError:
            membership.on_failure()
            raise
        try:
            if response.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                self._refusal = KafkaError(code, response.error_message)
            return membership.on_heartbeat(response, request)
        finally:
            self._on_news()

    def _leave_request(
        self, reason: str, versions: Mapping[int, tuple[int, int]]
    ) -> Message | None:
        return self.membership.leave_request()


def _whole(response: Any) -> Any:
    return response
