"""The logs of a broker on its disks.

``broker.replication`` appends and reads through ``log/unified_log.py``; the node starts and stops
``directories/log_manager.py``. Start reading there.
"""
