"""The log directories of a broker: loading, creating, moving and deleting logs; disk failures.

The node creates one ``LogManager``; start reading there.

A log start moves when records are deleted on request or by retention (``background_tasks``).
``log_starts`` brings the offset to disk and only then renames the segments below it to
``.deleted``; ``delayed_removal`` removes the files in a thread.

An OSError takes a whole directory offline, unless the disk is full or the process lacks
descriptors, threads or memory (``kernel/disk_errors``). Its partitions then respond with
KAFKA_STORAGE_ERROR, its coordinators resign, and ``broker/replication/log_dir_failures`` notifies
the controller, which elects others. The last directory takes the broker with it.
"""
