"""Transactions that are about to reach a log, while their coordinator is asked (KIP-890).

Kafka: ``VerificationStateEntry``, ``VerificationGuard``.
"""

from __future__ import annotations


class Verification:
    """Begins with the first batch of a transaction that has to be verified, and ends with an append
    or a marker of its producer: an answer to an earlier one is worth nothing then, which is why it
    is this very object that counts.

    ``lowest_sequence`` of the batches that wait: none after it may be appended before it.
    """

    __slots__ = ("lowest_sequence", "producer_epoch", "started_ms")

    def __init__(self, producer_epoch: int, sequence: int, now_ms: int) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.started_ms = now_ms

    def also_waits(self, producer_epoch: int, sequence: int) -> None:
        """Another batch has to wait for the same answer."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.lowest_sequence = sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


# Given with a batch that nobody has to ask for: a follower's, a coordinator's, or where
# ``transaction.partition.verification.enable`` is off.
NOT_REQUIRED = Verification(-1, -1, -1)
