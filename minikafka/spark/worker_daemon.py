"""PySpark's daemon, which forks the workers of tasks, without the traces of tasks cut short.

When a query needs no more rows of a task (``take``, ``limit``, ``isEmpty``) or its query is
stopped, the JVM closes the socket of the task's worker. The worker cannot write the rest and ends.
PySpark prints a traceback of BrokenPipeError for each of these, although nothing failed: an error
of the task is reported over the same socket, by the JVM. The ``fork_server`` runs this module in
place of ``pyspark.daemon``."""

from __future__ import annotations

import os
import socket

from pyspark import daemon


def let_workers_end_silently() -> None:
    """End a worker whose socket was closed as PySpark does, but without a traceback."""
    original = daemon.worker

    def worker(sock: socket.socket, authenticated: bool) -> int:
        try:
            return original(sock, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            os._exit(1)  # this is a process that the daemon forked for the worker

    daemon.worker = worker


if __name__ == "__main__":
    let_workers_end_silently()
    daemon.manager()
