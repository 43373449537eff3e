"""The PySpark data source ``minikafka``, and pipelines; nothing else imports PySpark.

Spark loads ``source.py``, whose readers are in ``read/`` and whose writers are in ``write/``. Both
send requests through ``cluster.py``, with blocking calls. Applications import ``session``,
``starting``, ``progress``, ``foreach_batch`` and ``java``.
"""
