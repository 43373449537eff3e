"""Verification of a transaction by its coordinator, before its first append to a log (KIP-890).

Kafka: ``VerificationStateEntry``, ``VerificationGuard``.
"""

from __future__ import annotations


class Verification:
    """The verification of one producer's transaction in one partition.

    It is created for the first batch that needs it, and ends when a batch or a marker of the
    producer is appended. A response to an earlier verification must not count for a later one, so
    they are compared by identity. ``lowest_sequence`` is the lowest sequence number of the batches
    that wait for the response; the batch with it must be appended first.

    ``adds`` is whether the request also adds the partition to the transaction, as in version 2 of
    transactions. Then each transaction has its own epoch, and begins at sequence number 0.
    """

    __slots__ = ("adds", "lowest_sequence", "producer_epoch", "started_ms")

    def __init__(self, producer_epoch: int, sequence: int, now_ms: int, adds: bool = False) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.started_ms = now_ms
        self.adds = adds

    def also_waits(self, producer_epoch: int, sequence: int) -> None:
        """Note that another batch waits for the response. A higher epoch replaces the former."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.lowest_sequence = sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


# The guard for a batch that needs no verification: one from the leader or from a coordinator, or
# any if ``transaction.partition.verification.enable`` is off.
NOT_REQUIRED = Verification(-1, -1, -1)
