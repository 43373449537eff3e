"""The transaction coordinator's decisions: producer epochs, states, markers. Pure functions.

``shard.TransactionShard`` holds the transactional ids of one partition of ``__transaction_state``;
only the coordinator (``minikafka.server.coordinator``) calls it. Start with ``transaction`` (the
states of a transactional id), then ``shard``.
"""
