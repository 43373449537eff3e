"""Writing DataFrames to topics: encoding rows, producing them, committing them exactly once.

Spark calls ``writers.py``; start reading there.
"""
