"""The PySpark data source ``minikafka``, and pipelines; nothing else imports PySpark.

Spark loads ``source.py``. ``read/`` and ``write/`` are its two sides; they make blocking calls of
``core/client`` through ``cluster.py``. Applications import ``session``, ``starting``, ``progress``,
``foreach_batch`` and ``java``.
"""
