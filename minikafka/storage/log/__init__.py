"""The log of one partition: segments, their indexes, recovery, and what is flushed when.

``unified_log.py`` is the only class that callers use; start reading there.
"""
