"""Log compaction: choosing the log to clean, and rewriting its segments.

The log manager starts ``LogCleaner``; start reading at ``log_cleaner.py``.

``core/log/compaction`` decides which log is cleaned, up to where, and what remains of a batch.
Cleaning runs on the event loop, in slices: threads would share one interpreter with it. A reader
that is under way while segments are replaced (``log/segment_swap``) can still read its segment, and
then reads again.
"""
