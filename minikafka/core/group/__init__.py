"""The group coordinator's decisions: members, rebalances, committed offsets. Pure functions.

``shard.GroupShard`` holds the groups of one partition of ``__consumer_offsets``; only the
coordinator (``minikafka.server.coordinator``) calls it. Start with ``shard``, then ``group`` (the
state of one group), ``joining`` (JoinGroup) and ``rebalance`` (the phases of a rebalance).
``modern_groups`` has what consumer, share and streams groups share, whose assignments the
coordinator computes; ``consumer_groups``, ``share_groups`` and ``streams_groups`` handle their
requests, and the rooms ``consumer``, ``share`` and ``streams`` decide them. ``conversion`` turns a
consumer group into a classic one and back.
"""
