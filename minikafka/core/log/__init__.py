"""Decisions about a partition's log: validation of appends, producer state, retention, compaction.

Pure functions and small state machines; ``storage/log`` and ``storage/cleaning`` carry them out.
The names and the small files of a log directory are here, too: Spark reads log directories offline.
Start reading at ``validation.py`` for appends and at ``compaction.py`` for the cleaner.
"""
