"""The log of one partition: segments, indexes, reads, recovery and flushes.

``unified_log.py`` is the only class that callers use; start reading there.
"""
