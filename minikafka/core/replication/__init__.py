"""The decisions of replication as pure functions: roles, ISR, high watermark, truncation.

``broker/replication`` and ``broker/fetch`` call them, and apply the results to logs. Start reading
at ``partition_state.py``.
"""
