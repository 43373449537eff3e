"""What a log knows of transactions, after it was loaded again: just what it knew before."""

from __future__ import annotations

import random
from typing import Any

import pytest

from minikafka.server.storage.log.unified_log import UnifiedLog
from tests.support.storage.instant_files import InstantFiles
from tests.support.storage.logs import DIRECTORY, batches_of, cut, load, new_log
from tests.support.storage.transactions import TxnProducer

CONFIG: dict[str, Any] = {"segment_bytes": 600, "index_interval_bytes": 100}
INDEXES = (".index", ".timeindex", ".txnindex")


def facts(log: UnifiedLog) -> object:
    """Aborted transactions, open ones, and what the next batch of each producer has to be."""
    return (
        log.aborted_transactions(log.log_start_offset, log.log_end_offset),
        log.transactions.ongoing,
        sorted(
            (e.producer_id, e.last_sequence, e.current_txn_first_offset, e.coordinator_epoch)
            for e in log.producers.states.entries
        ),
    )


class Story:
    """Four producers, whose transactions lie across small segments, truncations and restarts."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.files = InstantFiles()
        self.log = new_log(self.files, **CONFIG)
        self.producers = [TxnProducer(number) for number in range(4)]

    def run(self) -> None:
        for _ in range(80):
            producer = self.dice.choice(self.producers)
            choice = self.dice.random()
            if choice < 0.5:
                value = bytes(self.dice.randint(1, 80))
                producer.send(self.log, *[(b"k", value)] * self.dice.randint(1, 3))
            elif choice < 0.85 and producer.in_transaction:
                producer.end(self.log, commit=self.dice.random() < 0.5)
            elif choice < 0.9:
                self.truncate()
            elif choice < 0.97:
                self.restart()

    def truncate(self) -> None:
        bound = self.dice.randint(0, self.log.log_end_offset)
        starts = [batch.base_offset for batch in batches_of(self.log)]
        cut(self.log, max((start for start in starts if start <= bound), default=0))
        for producer in self.producers:
            entry = self.log.producers.states.entry(producer.producer_id)
            producer.sequence = 0 if entry is None else entry.last_sequence + 1
            producer.in_transaction = entry is not None and entry.current_txn_first_offset >= 0

    def restart(self) -> None:
        """In order, or killed; perhaps files are gone that can be made from the others."""
        before, end = facts(self.log), self.log.log_end_offset
        clean = self.dice.random() < 0.3
        if clean:
            self.log.persist()
        self.log.close()
        lost = [".snapshot"] if clean else [".snapshot", *INDEXES]
        if self.dice.random() < 0.5:
            for name in self.files.list(DIRECTORY):
                if name.endswith(tuple(lost)) and self.dice.random() < 0.5:
                    self.files.remove(f"{DIRECTORY}/{name}")
        self.log = load(self.files, clean=clean, recovery_point=end if clean else 0, **CONFIG)
        assert self.log.log_end_offset == end
        assert facts(self.log) == before


@pytest.mark.mission("DOP-5")
@pytest.mark.parametrize("seed", range(40))
def test_a_reloaded_log_has_the_same_transaction_state(seed: int) -> None:
    Story(seed).run()
