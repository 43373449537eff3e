"""Log compaction: which log is cleaned when, and how its segments are rewritten.

The log manager starts ``LogCleaner``; start reading at ``log_cleaner.py``.
"""
