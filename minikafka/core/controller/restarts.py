"""Brokers that were started again while there was no controller to see it."""

from __future__ import annotations

from collections.abc import Generator

from minikafka.core.controller.context import ControllerContext


def restarted_brokers(context: ControllerContext) -> Generator[None, None, list[int]]:
    """Return the live brokers that were started again while they were in sync, sorted. Yields after
    each partition.

    A broker that fails leaves the ISR, and comes back when it has caught up: the state is written
    after its registration. In an ISR that was written before, a broker may lack the records of its
    last moments: those that a power loss has taken. If it led, its followers would truncate them,
    too. So it does not count as in sync while there is another live member that does. Kafka trusts
    it: a broker whose session has not ended cannot start there, so that a controller mostly sees
    its failure. Here it can (``minikafka.fast.failover``).

    If all live members were started again, each is as good as the others, and none is returned."""
    found: set[int] = set()
    for state in context.leadership.values():
        isr = state.leader_and_isr.isr
        epochs = {each: context.brokers[each].epoch for each in isr if each in context.brokers}
        late = [each for each, epoch in epochs.items() if epoch > state.mzxid]
        if late and len(late) < len(epochs):
            found.update(late)
        yield
    return sorted(found)
