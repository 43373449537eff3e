"""The core of all Kafka clients: what to send, what a response means, and when to try again.

The asyncio client (``client/``), the Spark connector (``spark/``) and the simulator call it; it
does no I/O. Start reading at ``calls.py`` and ``errors.py``: the calls that all clients share, and
the table of errors with the retry policy. The rest is state of single clients: ``accumulator.py``
and ``sequences.py`` of producers, ``positions.py`` and ``membership.py`` of consumers.
"""
