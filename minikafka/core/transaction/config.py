"""The limits of transactions, by Kafka's configuration keys."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Kafka's configuration of transactions and its defaults; times in milliseconds."""

    transaction_max_timeout_ms: int = 15 * 60 * 1000
    transactional_id_expiration_ms: int = 7 * 24 * 60 * 60 * 1000
