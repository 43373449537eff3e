"""The PySpark data source ``minikafka``, and pipelines; nothing else imports PySpark.

Spark loads ``source.py``. ``read/`` and ``write/`` are its two sides; they reach brokers through
``cluster.py``, blocking, with the calls of ``core/client``. ``session``, ``starting``, ``progress``,
``foreach_batch`` and ``java`` are for applications.
"""
