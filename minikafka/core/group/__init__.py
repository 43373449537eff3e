"""The group coordinator's decisions: members, rebalances, committed offsets. Pure functions.

``shard.GroupShard`` holds the groups of one partition of ``__consumer_offsets``; only the
coordinator (``minikafka.server.coordinator``) calls it. Start with ``shard``, then ``group`` (the
state of one group), ``joining`` (JoinGroup) and ``rebalance`` (the phases of a rebalance).
``modern_groups`` carries out the decisions about all groups that the coordinator assigns by itself;
``modern`` is what such groups have in common. ``consumer_groups`` has those of KIP-848, with the
decisions in ``consumer``; ``conversion`` turns a consumer group into a classic one and back.
"""
