"""Writing DataFrames to topics: rows are encoded, sent, and committed exactly once.

Spark calls ``writers.py``; start reading there.
"""
