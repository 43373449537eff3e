"""The replicas of one broker: appends at the leader, copying at the follower, the ISR.

Handlers call the parts that ``replica_manager.py`` makes. ``partition.py`` holds the state of one
partition; start reading there, then ``record_appends.py`` (leader) and ``replica_fetcher.py``
(follower).

No ``await`` stands between reading the state of a partition and changing it, so there are no locks.
What a follower copies is trusted: its leader has validated the records, so only header, checksum
and offsets of each batch are checked.

Before the first batch of a transaction is appended to a partition, ``transaction_verification``
asks the coordinator whether the partition belongs to it, or, in transactions of version 2, has the
coordinator add it (KIP-890).
"""
