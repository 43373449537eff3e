"""Log compaction: choosing the log to clean, and rewriting its segments.

The log manager starts ``LogCleaner``; start reading at ``log_cleaner.py``.
"""
