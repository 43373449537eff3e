"""Transactions that wait for their coordinator's confirmation before they begin in a log (KIP-890).

Kafka: ``VerificationStateEntry``, ``VerificationGuard``.
"""

from __future__ import annotations


class Verification:
    """The verification of one transaction in one partition.

    It begins with the first batch that has to be verified, and ends with an append or a marker of
    the producer. A response to an earlier verification is void, so callers compare objects by
    identity. ``lowest_sequence`` is that of the waiting batches, and is appended first.
    """

    __slots__ = ("lowest_sequence", "producer_epoch", "started_ms")

    def __init__(self, producer_epoch: int, sequence: int, now_ms: int) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.started_ms = now_ms

    def also_waits(self, producer_epoch: int, sequence: int) -> None:
        """Let another batch wait for the same response."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.lowest_sequence = sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


# Given with a batch that needs no verification: a follower's, a coordinator's, or any where
# ``transaction.partition.verification.enable`` is off.
NOT_REQUIRED = Verification(-1, -1, -1)
