"""Independent Kafka clients for tests: their consumer processes, and helpers for their records.

Start with ``group_scenes``: it plays one group with the consumers of any client library.
"""
