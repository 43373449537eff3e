"""The core of all Kafka clients: requests to send, what responses mean, and the retry policy.

The asyncio client (``client/``), the Spark connector (``spark/``), the simulator and replica
fetchers (``fetch_session.py``) call it; it does no I/O. Start reading at ``calls.py`` and
``errors.py``: what every call consists of, and the table of errors with the retry policy. Further
rooms: ``producer/``, ``consumer/``, ``admin/`` and ``assignors/`` (partition assignment of consumer
groups).
"""
