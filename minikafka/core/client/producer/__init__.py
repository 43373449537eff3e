"""The state and the calls of producers: batches, partitions, sequence numbers, transactions.

The asyncio producer (``client/producer``) calls all of it; the Spark writer and the simulator call
parts, such as ``calls.py``. Start reading at ``accumulator.py`` and ``sequences.py``.
"""
