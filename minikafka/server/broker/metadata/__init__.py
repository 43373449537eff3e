"""What a broker knows about the cluster: brokers, leaders, topic configurations, coordinators.

UpdateMetadata requests fill it; every other room of the broker reads it. Start at ``cache.py``.
"""
