"""The group coordinator's decisions: members, rebalances, committed offsets. Pure functions.

``shard.GroupShard`` holds the groups of one partition of ``__consumer_offsets``; only the
coordinator (``minikafka.server.coordinator``) calls it. Start with ``shard``, then ``group`` (the
state of one group), ``joining`` (JoinGroup) and ``rebalance`` (the phases of a rebalance).
``consumer_groups`` has the groups of KIP-848, with the decisions in ``consumer``; ``conversion``
turns a group of one kind into one of the other.
"""
