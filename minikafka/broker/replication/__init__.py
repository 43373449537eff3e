"""The replicas of one broker: leaders that append, followers that copy, and the ISR.

Handlers call ``replica_manager.py``; start reading there. ``partition.py`` holds the state of one
partition, and ``replica_fetcher.py`` copies from a leader.
"""
