"""Reading topics into DataFrames: offsets are planned, ranges fetched, records decoded.

Spark calls ``batch_reader.py`` and ``stream_reader.py``; start reading there.
"""
