"""Logs for tests: files in memory or crashing files, batches, and mutations of both.

Start with ``logs``, which creates single logs on ``instant_files``.
"""
