"""Reading topics into DataFrames: planning offset ranges, fetching them, decoding records.

Spark calls ``batch_reader.py`` and ``stream_reader.py``; start reading there.
"""
