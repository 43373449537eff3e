"""The replicas of one broker: appends at the leader, copying at the follower, the ISR.

Handlers call the parts that ``replica_manager.py`` makes. ``partition.py`` holds the state of one
partition; start reading there, then ``record_appends.py`` (leader) and ``replica_fetcher.py``
(follower).
"""
